"""Clients that pass messages on, over real sockets."""
