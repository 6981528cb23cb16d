"""Filters compiled to programs for kernels, each stored once."""
