"""Evaluation of a tree in a scope, in three-valued logic."""
