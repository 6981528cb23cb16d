"""Durability: what must be on disk before it is acknowledged, and recovery after a restart."""
