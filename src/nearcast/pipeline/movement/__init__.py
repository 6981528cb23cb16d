"""Tracks, encounters and traffic."""
