"""Verbs that connect to a broker as a client."""
