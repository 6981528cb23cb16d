"""Verbs that talk to a broker as its clients do."""
