"""The attacks: each is a small class that says what it does, and how much of it."""
