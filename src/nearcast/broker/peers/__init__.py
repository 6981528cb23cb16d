"""Clients that pass messages on to each other, as the broker sees them."""
