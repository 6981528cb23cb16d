"""Visibility of a node: position, identity, attributes, as bits of a mask."""

SEE_POSITION, SEE_IDENTITY, SEE_ATTRIBUTES = 1, 2, 4
SEE_ALL = SEE_POSITION | SEE_IDENTITY | SEE_ATTRIBUTES
SEE_NOTHING = 0
SEE_WHERE_NAMED = SEE_POSITION | SEE_IDENTITY
"""Required to ask for the position of a node by its name."""
