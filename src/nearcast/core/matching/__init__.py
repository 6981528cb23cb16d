"""Matching of events and subscriptions: kernels, the index, and the matcher."""
