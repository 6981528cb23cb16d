"""A tree evaluated in a scope, in three-valued logic."""
