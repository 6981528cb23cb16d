"""Placement: scripts that run where their data is (seed A), in a sandbox of worker processes."""
