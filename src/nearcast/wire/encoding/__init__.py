"""Compressed payloads: content codings, their negotiation, and bounded decoders."""
