"""Gathering: events are held until a threshold releases them together."""
