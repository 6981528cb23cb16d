"""The city's conditions over columns, for peers that evaluate them in numpy.

Distances are chords between points in space (instead of arcs, as in the matcher), which is exact
enough and cheap: six subtractions and products instead of six sines.
"""

from typing import NamedTuple

import numpy as np

from nearcast.benchmarks import city
from nearcast.benchmarks.city import F64, I32, CitySubscriptions, Events, People
from nearcast.core.model.geometry import ellipsoid


class Where(NamedTuple):
    """For each subscription its owner's point in space, and its radius as a squared chord."""

    x: F64
    y: F64
    z: F64
    chord_squared: F64


def where(subscriptions: CitySubscriptions, people: People) -> Where:
    """Compute the points and squared chords of all subscriptions."""
    x, y, z = points(people.lat, people.lon)
    owner = subscriptions.owner
    return Where(x[owner], y[owner], z[owner], chord_m(subscriptions.radius_m) ** 2)


def points(lat: F64, lon: F64) -> tuple[F64, F64, F64]:
    """Convert positions on the ellipsoid to points in space."""
    phi, lam = np.radians(lat), np.radians(lon)
    squared = ellipsoid.ECCENTRICITY_SQUARED
    normal = ellipsoid.EQUATORIAL_RADIUS_M / np.sqrt(1.0 - squared * np.sin(phi) ** 2)
    across = normal * np.cos(phi)
    return across * np.cos(lam), across * np.sin(lam), normal * (1.0 - squared) * np.sin(phi)


def chord_m(radius_m: F64) -> F64:
    """The chord of an arc of `radius_m` metres."""
    diameter: F64 = np.array(2.0 * ellipsoid.MEAN_RADIUS_M)
    return diameter * np.sin(radius_m / diameter)


def near(place: Where, rows: I32, x: float, y: float, z: float) -> I32:
    """The rows whose circle contains a point."""
    dx, dy, dz = place.x[rows] - x, place.y[rows] - y, place.z[rows] - z
    within = dx * dx + dy * dy + dz * dz <= place.chord_squared[rows]
    found: I32 = rows[within]
    return found


def content(subscriptions: CitySubscriptions, rows: I32, events: Events, i: int) -> I32:
    """The rows whose conditions on subject, kind and line hold for event `i`."""
    for column, value, free in (
        (subscriptions.line, events.line[i], city.ABSENT),
        (subscriptions.kind, events.kind[i], city.ABSENT),
        (subscriptions.subject, events.subject[i], city.ANY_SUBJECT),
    ):
        mine = column[rows]
        rows = rows[(mine == value) | (mine == free)]
    return rows


def numbers(subscriptions: CitySubscriptions, rows: I32, events: Events, i: int) -> I32:
    """The rows whose numeric conditions, including OR and NOT, hold for event `i`."""
    below, above = subscriptions.speed_below[rows], subscriptions.speed_above[rows]
    least, late = subscriptions.severity[rows], subscriptions.delay[rows]
    form = subscriptions.form[rows]
    speed = ~(events.speed[i] >= below) & ~(events.speed[i] <= above)
    unsevere = events.severity[i] < least
    severe = ~unsevere
    either = np.where(
        form == city.CONJUNCTION,
        speed & severe,
        np.where(form == city.WITH_OR, speed | severe, speed & unsevere),
    )
    found: I32 = rows[either & ~(events.delay[i] <= late)]
    return found
