"""Spark sessions, and the jobs that run in them."""
