"""Live events: an index of them, their columns, who has seen them, and which match now."""
