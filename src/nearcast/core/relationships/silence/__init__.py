"""Silence: regions in which the members of a relationship need not report (seed A)."""
