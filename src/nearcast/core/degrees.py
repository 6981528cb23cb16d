"""Degrees: limits of latitudes and longitudes, and correction of rounding errors beyond them.

Published data has longitudes such as 180.00000000000006. A value beyond the limit by no more than
the tolerance (a tenth of a millimetre on the ground) is set to the limit; readers refuse values
beyond that.
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
