"""Verbs that run a broker, or look after its files."""
