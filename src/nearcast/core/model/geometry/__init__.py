"""Positions, areas and places, and containment tests."""
