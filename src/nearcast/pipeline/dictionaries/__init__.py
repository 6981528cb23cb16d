"""Dictionaries for small messages, trained from the log."""
