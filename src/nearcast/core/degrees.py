"""Degrees: how far latitudes and longitudes go, and what a rounding error beyond that becomes.

Published data has longitudes such as 180.00000000000006. What is out by no more than the
tolerance (a tenth of a millimetre on the ground) is the limit itself; more than that is refused
by whoever reads it.
"""

import math

LARGEST_LATITUDE = 90.0
LARGEST_LONGITUDE = 180.0
TOLERANCE = 1e-9


def clamped(degrees: float, largest: float) -> float:
    """Return degrees, or the limit they exceed by no more than the tolerance."""
    if largest < abs(degrees) <= largest + TOLERANCE:
        return math.copysign(largest, degrees)
    return degrees
