"""Checksums of the state's pages, what they find, and a state without what is damaged."""
