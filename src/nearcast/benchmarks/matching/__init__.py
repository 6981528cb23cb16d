"""The matcher beside what else one could use."""
