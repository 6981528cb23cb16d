"""Attackers beside an honest client: what one client can do to the others."""
