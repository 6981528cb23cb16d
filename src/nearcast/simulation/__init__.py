"""Worlds to run the core in: movement, and a small city, in virtual time.

Nothing here reads a clock or draws from a source of chance that was not seeded: time is passed
in, as it is to the core. Where a node is at a time is a function of that time alone, so a virtual
clock may jump, a radio may ask who is in reach of whom, and a network may delay or lose what
was sent, all without the movement knowing of them.
"""
