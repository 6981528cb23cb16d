"""Seed E's experiment: outbound bandwidth and lag, with aggregates and chains of recipients."""
