"""What applies each kind of input, and what follows from it."""
