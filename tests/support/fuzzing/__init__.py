"""Seeded fuzzing: targets, mutations, and the search for cases that fail."""
