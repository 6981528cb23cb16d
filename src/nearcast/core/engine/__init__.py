"""The six steps, composed, and the books that the engine keeps."""
