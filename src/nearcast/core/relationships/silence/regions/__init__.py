"""Regions in which a member of a pair need not report, and strategies that choose them."""
