"""Queries of the host: nodes, explanations, and unmet needs of subscriptions."""
