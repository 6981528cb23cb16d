"""Load generators, and what they cost."""
