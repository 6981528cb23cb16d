"""What waits until there is enough of it."""
