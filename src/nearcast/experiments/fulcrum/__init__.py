"""Seed A's experiments: pairs of moving nodes that say only what matters."""
