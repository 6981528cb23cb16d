"""Table 1: filters on both sides at an intersection, through whole nodes on a radio channel.

The text's counts come from induction loops in Dublin, which it does not print; here vehicles come
evenly, seven lanes, in the green phase of their approach. Geometry is its own: a light that raises
an event every second for each of two approaches, 25 miles an hour, 40 m, a range of 200 m, and a
location service that tells a position a second, or more often.
"""

from collections.abc import Sequence
from random import Random

from msgspec import Struct

from nearcast.core.model.geometry.area import circle
from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.experiments.experiment_result import ExperimentRow
from nearcast.experiments.steam.crowds import MPH, RANGE_M, Place, position
from nearcast.simulation.network.radio import Radio, RadioSettings
from nearcast.simulation.radio_node import RadioNode
from nearcast.simulation.virtual_clock import VirtualClock

RADIUS_M, SPEED_MPS = 40.0, 25.0 * MPH
START_M = RANGE_M + 60.0
LIGHT = event_type(
    "traffic/light", {"approach": str, "green": bool, "at": "position"}, deadline=1.0
)
LANES = (
    ("east", 1),
    ("east", 1),
    ("west", 1),
    ("north", 2),
    ("north", 2),
    ("south", 2),
    ("south", 2),
)
CYCLE_S, SPLIT = 100.0, 0.45
OWN_APPROACHING = "approach = '{}' AND approaching(event)"
_FROM: dict[str, Place] = {
    "east": (1.0, 0.0), "west": (-1.0, 0.0), "north": (0.0, 1.0), "south": (0.0, -1.0),
}  # fmt: skip


class LaneCount(Struct):
    """What the vehicles of one lane got."""

    lane: str
    vehicles: int = 0
    delivered: int = 0
    beacons: int = 0


class Intersection:
    """One run: all vehicles pass, with filters or without."""

    def __init__(self, per_lane: int, seed: int, fix_s: float, *, filtered: bool) -> None:
        self._clock = VirtualClock(seed)
        self._random = Random(f"{seed}/vehicles")
        self._fix_s = fix_s
        self._filtered = filtered
        self._paths: dict[str, tuple[Place, float]] = {}
        quiet = RadioSettings(range_m=RANGE_M, contention=False)
        self._radio = Radio(self._clock, self._where, quiet)
        self._settings = ProximitySettings(radio_range_m=RANGE_M, beacon_most_s=1.0)
        self.lanes = [
            LaneCount(f"approach {approach}, from the {side}") for side, approach in LANES
        ]
        self._light = RadioNode(self._radio.open("light"), self._clock, self._settings)
        self._light.move(position((0.0, 0.0)))
        at = position((0.0, 0.0))
        area = circle((at.lat, at.lon), RADIUS_M if filtered else RANGE_M)
        self._light.announce(LIGHT, area)
        self._raise()
        self._left = per_lane * len(LANES)
        for lane, (side, approach) in enumerate(LANES):
            for number in range(per_lane):
                self._clock.after(
                    self._green_s(approach, number), self._arrival(lane, side, approach, number)
                )

    def run(self) -> list[LaneCount]:
        """Let all vehicles pass."""
        while self._left:
            self._clock.run(10.0)
        return self.lanes

    def _green_s(self, approach: int, cycle: int) -> float:
        """Return when a vehicle starts so that it passes the light in a green phase."""
        begin, end = (0.0, SPLIT) if approach == 1 else (SPLIT, 1.0)
        passes = (cycle + 1 + self._random.uniform(begin, end)) * CYCLE_S
        return passes - START_M / SPEED_MPS

    def _where(self, name: str) -> Position | None:
        if name == "light":
            return position((0.0, 0.0))
        path = self._paths.get(name)
        if path is None:
            return None
        (east, north), begun = path
        left_m = START_M - SPEED_MPS * (self._clock.now() - begun)
        return position((east * left_m, north * left_m))

    def _raise(self) -> None:
        at = position((0.0, 0.0))
        for approach in ("1", "2"):
            self._light.raise_event(
                "traffic/light", {"approach": approach, "green": True, "at": [at.lon, at.lat]}
            )
        self._clock.after(1.0, self._raise)

    def _arrival(self, lane: int, side: str, approach: int, number: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
        def arrive() -> None:
            name = f"{lane}-{number}"
            self._paths[name] = _FROM[side], self._clock.now()
            node = RadioNode(self._radio.open(name), self._clock, self._settings)
            where = OWN_APPROACHING.format(approach) if self._filtered else None
            node.subscribe("traffic/light", where)
            self._drive(node, lane)

        return arrive

    def _drive(self, node: RadioNode, lane: int) -> None:
        """Take a fix, and the next one some time later, until it has passed."""
        here = self._where(node.name)
        assert here is not None
        _, begun = self._paths[node.name]
        if SPEED_MPS * (self._clock.now() - begun) < 2.0 * START_M:
            node.move(here)
            self._clock.after(self._fix_s, lambda: self._drive(node, lane))
            return
        count = self.lanes[lane]
        count.vehicles += 1
        count.delivered += len(node.delivered)
        count.beacons += 1
        node.crash()
        del self._paths[node.name]
        self._left -= 1


def intersection_rows(
    per_lane: int, seed: int, fixes_s: Sequence[float] = (1.0, 0.1)
) -> list[ExperimentRow]:
    """Table 1: events delivered with distributed filters and without."""
    rows: list[ExperimentRow] = []
    for fix_s in fixes_s:
        plain = Intersection(per_lane, seed, fix_s, filtered=False).run()
        filtered = Intersection(per_lane, seed, fix_s, filtered=True).run()
        if not rows:
            rows += lane_rows(plain, filtered)
        rows += summary_rows(plain, filtered, fix_s)
    return rows


def lane_rows(plain: Sequence[LaneCount], filtered: Sequence[LaneCount]) -> list[ExperimentRow]:
    """Return the counts of each lane."""
    rows = []
    note = "The text prints the counts of a day of Dublin as a picture."
    for number, (without, with_) in enumerate(zip(plain, filtered, strict=True), 1):
        case = f"lane {number}, {without.lane}"
        for what, value in (
            ("vehicles", with_.vehicles), ("delivered without filters", without.delivered),
            ("delivered with filters", with_.delivered),
        ):  # fmt: skip
            rows.append(ExperimentRow("Table 1", f"{case}: {what}", None, value, note=note))
    return rows


def summary_rows(
    plain: Sequence[LaneCount], filtered: Sequence[LaneCount], fix_s: float
) -> list[ExperimentRow]:
    """Return by how much filters cut deliveries, beside what geometry says."""
    without = sum(lane.delivered for lane in plain)
    with_ = sum(lane.delivered for lane in filtered)
    beacons = sum(lane.beacons for lane in filtered)
    inside_s, range_s = RADIUS_M / SPEED_MPS, 2.0 * RANGE_M / SPEED_MPS
    by_geometry = 100.0 * (1.0 - inside_s / (2.0 * range_s))
    counted = 100.0 * (1.0 - (inside_s + 1.0) / (2.0 * range_s))
    note = (
        f"Geometry alone: {by_geometry:.1f} %, and {counted:.1f} % with beacons. Between two fixes "
        "a vehicle that passes the light still counts as approaching."
    )
    return [
        ExperimentRow(
            "Table 1", f"deliveries cut by filters, a fix every {fix_s:g} s", 95.0,
            100.0 * (1.0 - with_ / without), "%", note=note,
        ),
        ExperimentRow(
            "Table 1", f"the same, beacons counted, a fix every {fix_s:g} s", 93.0,
            100.0 * (1.0 - (with_ + beacons) / without), "%", note=note,
        ),
    ]  # fmt: skip
