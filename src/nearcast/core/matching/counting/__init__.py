"""Counting: recent events that answer the questions of filters by `count`."""
