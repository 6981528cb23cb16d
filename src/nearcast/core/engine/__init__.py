"""The engine: its six steps, and the books in which it keeps its state."""
