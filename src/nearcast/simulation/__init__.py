"""Worlds to run the core in: movement, and a small city, in virtual time.

Nothing here reads a clock or uses an unseeded random generator: time is passed in, as it is to the
core. The position of a node is a function of time alone, so a virtual clock may jump, a radio may
compute reachability, and a network may delay or lose messages, all independently of the movement.
"""
