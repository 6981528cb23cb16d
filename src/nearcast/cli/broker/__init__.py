"""Verbs that run a broker, or manage its files."""
