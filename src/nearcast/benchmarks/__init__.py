"""Benchmarks of Nearcast and its alternatives, measured side by side in one run."""
