"""Rows of the log: any input or delivery as columns, and back."""
