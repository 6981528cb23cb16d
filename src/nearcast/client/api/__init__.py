"""A node in a program: what it publishes, subscribes to and is told."""
