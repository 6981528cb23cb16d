"""Codecs free of I/O: bytes in, values out, and back."""
