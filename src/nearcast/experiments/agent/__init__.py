"""Seed C's experiments: the rule-based agent for data distribution."""
