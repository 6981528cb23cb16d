"""Who is concerned by an event: kernels, the index, and the matcher round them."""
