"""Nearcast side by side, in one run, with what a user would pick instead."""
