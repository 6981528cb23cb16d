"""Proximities: nodes without a broker discover areas of events and pass events on (seed D)."""
