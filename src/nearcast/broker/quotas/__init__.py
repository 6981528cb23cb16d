"""Quotas: bounds on everything that clients can make grow, and the memory budget."""
