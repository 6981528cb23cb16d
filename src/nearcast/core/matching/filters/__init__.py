"""Filters as programs that kernels run, each kept once."""
