"""Bounding boxes of the circles in degrees, slightly enlarged so that no point is lost."""

from typing import NamedTuple

import numpy as np

from nearcast.benchmarks.city import F64, CitySubscriptions, People

SLACK = 1.001
M_PER_DEGREE = 110_570.0
"""The shortest degree of latitude on the ellipsoid; times cos(lat), a lower bound for longitude."""


class Boxes(NamedTuple):
    """The bounding boxes of all subscriptions, as columns."""

    south: F64
    north: F64
    west: F64
    east: F64


def boxes(subscriptions: CitySubscriptions, people: People) -> Boxes:
    """Compute the bounding boxes of all circles."""
    lat, lon = people.lat[subscriptions.owner], people.lon[subscriptions.owner]
    high = subscriptions.radius_m * SLACK / M_PER_DEGREE
    wide = high / np.cos(np.radians(np.abs(lat) + high))
    return Boxes(lat - high, lat + high, lon - wide, lon + wide)
