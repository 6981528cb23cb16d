"""Seed D's experiments: events in proximities, without a broker."""
