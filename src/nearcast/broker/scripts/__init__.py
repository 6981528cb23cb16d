"""Scripts at the broker: placed by topic, run on behalf of their node (seed A)."""
