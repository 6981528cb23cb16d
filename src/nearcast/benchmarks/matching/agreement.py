"""Agreement: figures are meaningless unless Nearcast and its peers find the same pairs.

Two sets of pairs may differ only where the distance equals the radius to within a relative 1e-5,
which is the accuracy of `nearcast.core.model.geometry.geodesy` against exact geodesics.
"""

import numpy as np

from nearcast.benchmarks.city import CitySubscriptions, Events, People
from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.matching.peers.peer import MatchedPairs
from nearcast.core.model.geometry.geodesy import distance_m

TOLERANCE = 1e-5


class MatchingCity:
    """Subscriptions, people and events of one run."""

    def __init__(self, subscriptions: CitySubscriptions, people: People, events: Events) -> None:
        self.subscriptions, self.people, self.events = subscriptions, people, events

    def __len__(self) -> int:
        return len(self.subscriptions.owner)


def check_agreement(
    city: MatchingCity, name: str, theirs: MatchedPairs, ours: MatchedPairs
) -> None:
    """Raise BenchmarkError with the first difference unless a peer found the same pairs."""
    found, expected = _keys(city, theirs), _keys(city, ours)
    for whose, keys in ((name, found), ("nearcast", expected)):
        if len(np.unique(keys)) != len(keys):
            raise BenchmarkError(f"{whose} found a pair more than once")
    for key in np.setxor1d(found, expected).tolist():
        event, row = divmod(key, len(city))
        distance, radius = _distance(city, event, row)
        if abs(distance - radius) <= TOLERANCE * radius:
            continue
        only, other = (name, "nearcast") if key in found else ("nearcast", name)
        raise BenchmarkError(
            f"{only} says that event {event} matches subscription {row}, {other} says not: "
            f"{distance:.3f} m apart, radius {radius:.3f} m; "
            f"subscription {_row(city.subscriptions, row)}; event {_row(city.events, event)}"
        )


def _keys(city: MatchingCity, pairs: MatchedPairs) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    keys: np.ndarray[tuple[int], np.dtype[np.int64]] = (
        pairs.event.astype(np.int64) * len(city) + pairs.subscription
    )
    return keys


def _distance(city: MatchingCity, event: int, row: int) -> tuple[float, float]:
    owner = city.subscriptions.owner[row]
    metres = distance_m(
        city.people.lat[owner], city.people.lon[owner],
        city.events.lat[event], city.events.lon[event],
    )  # fmt: skip
    return float(metres), float(city.subscriptions.radius_m[row])


def _row(columns: CitySubscriptions | Events, row: int) -> str:
    return ", ".join(f"{name}={column[row]}" for name, column in columns._asdict().items())
