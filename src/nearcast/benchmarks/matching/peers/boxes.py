"""Boxes in degrees that hold the circles, a little too large so that no edge is lost."""

from typing import NamedTuple

import numpy as np

from nearcast.benchmarks.city import F64, CitySubscriptions, People

SLACK = 1.001
M_PER_DEGREE = 110_570.0
"""The shortest degree of latitude on the ellipsoid; one of longitude is no shorter times cos."""


class Boxes(NamedTuple):
    """The corners of each subscription's box."""

    south: F64
    north: F64
    west: F64
    east: F64


def boxes(subscriptions: CitySubscriptions, people: People) -> Boxes:
    """The boxes of all circles."""
    lat, lon = people.lat[subscriptions.owner], people.lon[subscriptions.owner]
    high = subscriptions.radius_m * SLACK / M_PER_DEGREE
    wide = high / np.cos(np.radians(np.abs(lat) + high))
    return Boxes(lat - high, lat + high, lon - wide, lon + wide)
