"""Where: positions, areas and places, and what is inside them."""
