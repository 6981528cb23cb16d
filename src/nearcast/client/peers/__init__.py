"""Passing messages on to other clients, for nodes that offer an address."""
