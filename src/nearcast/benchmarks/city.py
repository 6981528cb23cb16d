"""A city with hot spots: the subscriptions and events shared by the benchmarks.

People and events cluster around the same hot spots in a square of 60 km. A subscription selects
one subject (or all), events within 100 m to 5 km of its owner, and one to four conditions on
attributes; one in ten has an OR, one in ten a NOT. The weights (density of the hot spots; most
subscriptions have a condition on the kind, few on the line) are chosen so that an event has about
20 matches among a million subscriptions, and proportionally fewer among fewer. All data is drawn
as columns, so that each competitor gets the same data in the form that suits it best.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.core.language import Filter, Operation, Property
from nearcast.core.language.ast import Node
from nearcast.core.model import Around, MovingCircle, Subscription
from nearcast.core.model.event_batch import EventBatch

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]

SOUTH, WEST, SIDE_M = 53.10, -6.70, 60_000.0
M_PER_LAT = 111_300.0
M_PER_LON = 111_320.0 * np.cos(np.radians(53.37))
SUBJECTS = tuple(f"city/{name}" for name in (
    "traffic", "bus", "tram", "taxi", "hazard", "parking", "weather", "event", "sale", "police",
    "repair", "air",
))  # fmt: skip
ANY_SUBJECT = len(SUBJECTS)
KINDS = tuple(f"kind-{i}" for i in range(20))
LINES = tuple(f"line-{i}" for i in range(60))
HOT_SPOTS, HOT_SHARE, HOT_WIDTH_M = 40, 0.7, 1_800.0
PEOPLE_PER = 2
"""Subscriptions per person."""

ABSENT = -1
CONJUNCTION, WITH_OR, WITH_NOT = 0, 1, 2
"""Forms of a filter: a conjunction; one with (speed OR severity); one with NOT severity."""


class CitySubscriptions(NamedTuple):
    """Subscriptions as columns; ABSENT or NaN means that there is no such condition."""

    owner: I32
    subject: I32  # ANY_SUBJECT: all
    radius_m: F64
    kind: I32
    line: I32
    speed_below: F64
    speed_above: F64
    severity: F64  # at least
    delay: F64  # more than
    form: I32


class People(NamedTuple):
    """Positions of all people, as columns."""

    lat: F64
    lon: F64


class Events(NamedTuple):
    """Events as columns."""

    subject: I32
    lat: F64
    lon: F64
    kind: I32
    line: I32
    speed: F64
    severity: F64
    delay: F64


def draw_people(count: int, rng: np.random.Generator) -> People:
    """Draw people, most of them at hot spots."""
    return People(*_places(count, rng))


def draw_events(count: int, rng: np.random.Generator) -> Events:
    """Draw events with the same spatial distribution as people."""
    lat, lon = _places(count, rng)
    return Events(
        subject=_zipf(len(SUBJECTS), count, rng, 0.5),
        lat=lat,
        lon=lon,
        kind=_zipf(len(KINDS), count, rng, 0.4),
        line=_zipf(len(LINES), count, rng, 0.2),
        speed=np.round(rng.gamma(4.0, 11.0, count), 1),
        severity=rng.integers(1, 6, count).astype(np.float64),
        delay=np.round(rng.exponential(6.0, count), 1),
    )


def draw_subscriptions(count: int, rng: np.random.Generator) -> CitySubscriptions:
    """Draw subscriptions: round thresholds, and always a condition on the kind or the line."""
    wants = rng.random((count, 5))
    wanted = np.column_stack([wants[:, 0] < 0.25, wants[:, 1] < 0.20, wants[:, 2:] < 0.36])
    # Each has a kind or a line, and the forms with OR and NOT have the conditions they need.
    form = rng.choice(3, count, p=[0.8, 0.1, 0.1]).astype(np.int32)
    plain = ~wanted[:, :2].any(axis=1)
    wanted[plain, 1] = rng.random(plain.sum()) < 0.2
    wanted[plain & ~wanted[:, 1], 0] = True
    wanted[form == WITH_OR, 2] = True
    wanted[form != CONJUNCTION, 3] = True
    too_many = wanted.sum(axis=1) > 4
    wanted[too_many, 4] = False
    below = rng.random(count) < 0.5
    speed = rng.integers(1, 26, count) * 5.0
    return CitySubscriptions(
        owner=np.arange(count, dtype=np.int32) // PEOPLE_PER,
        subject=np.where(
            rng.random(count) < 0.1, ANY_SUBJECT, _zipf(len(SUBJECTS), count, rng, 0.5)
        ).astype(np.int32),
        radius_m=np.round(100.0 * np.exp(rng.random(count) * np.log(50.0))),
        kind=np.where(wanted[:, 0], _zipf(len(KINDS), count, rng, 0.4), ABSENT).astype(np.int32),
        line=np.where(wanted[:, 1], _zipf(len(LINES), count, rng, 0.2), ABSENT).astype(np.int32),
        speed_below=np.where(wanted[:, 2] & below, speed, np.nan),
        speed_above=np.where(wanted[:, 2] & ~below, speed, np.nan),
        severity=np.where(wanted[:, 3], rng.integers(1, 6, count).astype(np.float64), np.nan),
        delay=np.where(wanted[:, 4], rng.integers(0, 13, count) * 2.5, np.nan),
        form=form,
    )


def filters(subscriptions: CitySubscriptions, first: int, last: int) -> list[Filter]:
    """The filters of the subscriptions `first` to `last`, exclusive."""
    rows = zip(
        *(column[first:last].tolist() for column in subscriptions[3:]),
        strict=True,
    )
    return [Filter(_condition(*row)) for row in rows]


def nearcast_subscriptions(
    subscriptions: CitySubscriptions, first: int, last: int
) -> list[Subscription]:
    """The subscriptions `first` to `last`, exclusive, as `Subscription` values without ids."""
    owner, subject, radius = (column[first:last].tolist() for column in subscriptions[:3])
    return [
        Subscription(
            id="",
            node=f"p{node}",
            subject="city/#" if about == ANY_SUBJECT else SUBJECTS[about],
            where=where,
            from_=Around("me", MovingCircle(radius_m)),
        )
        for node, about, radius_m, where in zip(
            owner, subject, radius, filters(subscriptions, first, last), strict=True
        )
    ]


def nearcast_batch(events: Events, first: int, last: int) -> EventBatch:
    """The events `first` to `last`, exclusive, as a batch."""
    count = last - first
    part = Events._make(column[first:last] for column in events)
    used, number = np.unique(
        np.concatenate([part.kind, part.line + len(KINDS)]), return_inverse=True
    )
    texts = KINDS + LINES
    values = np.column_stack(
        [number[:count], number[count:], part.speed, part.severity, part.delay]
    )
    return EventBatch(
        subjects=SUBJECTS,
        subject=part.subject,
        publishers=(),
        publisher=np.full(count, -1, np.int32),
        lat=part.lat,
        lon=part.lon,
        names=("kind", "line", "speed", "severity", "delay"),
        strings=tuple(texts[i] for i in used.tolist()),
        first=np.arange(0, 5 * count + 1, 5, dtype=np.int32),
        name_of=np.tile(np.arange(5, dtype=np.int32), count),
        kinds=np.tile(np.array([3, 3, 1, 1, 1], np.uint8), count),
        values=values.astype(np.float64).ravel(),
    )


def _condition(
    kind: int,
    line: int,
    speed_below: float,
    speed_above: float,
    severity: float,
    delay: float,
    form: int,
) -> Node:
    parts: list[Node] = []
    if kind != ABSENT:
        parts.append(Operation("=", (_KIND, KINDS[kind])))
    if line != ABSENT:
        parts.append(Operation("=", (_LINE, LINES[line])))
    if delay == delay:
        parts.append(Operation(">", (_DELAY, delay)))
    speed: list[Node] = []
    if speed_below == speed_below:
        speed.append(Operation("<", (_SPEED, speed_below)))
    if speed_above == speed_above:
        speed.append(Operation(">", (_SPEED, speed_above)))
    severe: list[Node] = []
    if severity == severity:
        severe.append(Operation(">=", (_SEVERITY, severity)))
    if form == WITH_OR:
        parts.append(Operation("or", (*speed, *severe)))
    elif form == WITH_NOT:
        parts.extend((*speed, Operation("not", (severe[0],))))
    else:
        parts.extend((*speed, *severe))
    return parts[0] if len(parts) == 1 else Operation("and", tuple(parts))


def _places(count: int, rng: np.random.Generator) -> tuple[F64, F64]:
    spots = np.random.default_rng(7).random((HOT_SPOTS, 2)) * SIDE_M
    weight = 1.0 / np.arange(1, HOT_SPOTS + 1) ** 0.5
    spot = rng.choice(HOT_SPOTS, count, p=weight / weight.sum())
    hot = spots[spot] + rng.normal(0.0, HOT_WIDTH_M, (count, 2))
    anywhere = rng.random((count, 2)) * SIDE_M
    at = np.where((rng.random(count) < HOT_SHARE)[:, None], hot, anywhere)
    return SOUTH + at[:, 0] / M_PER_LAT, WEST + at[:, 1] / M_PER_LON


def _zipf(values: int, count: int, rng: np.random.Generator, power: float) -> I32:
    weight = 1.0 / np.arange(1, values + 1) ** power
    return rng.choice(values, count, p=weight / weight.sum()).astype(np.int32)


_KIND, _LINE = Property("kind"), Property("line")
_SPEED, _SEVERITY, _DELAY = Property("speed"), Property("severity"), Property("delay")
