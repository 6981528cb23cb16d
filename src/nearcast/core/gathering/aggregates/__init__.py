"""Aggregates: what is alike and unlike in many events, merged exactly."""
