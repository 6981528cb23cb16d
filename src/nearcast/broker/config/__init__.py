"""What an operator may choose, and where each value comes from."""
