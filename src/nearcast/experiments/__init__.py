"""Experiments of the source documents: their tables and figures, ours beside them."""
