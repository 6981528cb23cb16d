"""Credentials of clients: passwords, tokens, and the files that hold them."""
