"""The five scenarios of seed A (6.1): its course of 20 yards, its walkers, counted as it counts.

Compared is the set-up and the crossings up to the notice; the definition, notices and
acknowledgements are apart. Fixes are a second apart, both walkers at one instant; the text does not
say how often its receivers told a position, so the raw numbers are beside each other, not compared.
"""

from collections.abc import Callable

import msgspec
import numpy as np
from msgspec import Struct

from nearcast.core.relationships.silence.pair_member import PairMember, PairSettings, PairStep
from nearcast.core.relationships.silence.pair_message import Crossing
from nearcast.core.relationships.silence.regions.region import Point
from nearcast.core.relationships.silence.regions.strategy import SilenceStrategy
from nearcast.experiments.experiment_result import Curve, ExperimentFigure, ExperimentRow

YARD_M = 0.9144
COURSE_M, WITHIN_M = 20.0 * YARD_M, 10.0 * YARD_M
MPH = 0.44704
SLOW, FAST = 1.5 * MPH, 3.5 * MPH
UP_M = 6.4e6
"""The course lies on a plane far above the origin: level directions are as on the ground."""

_ENCODER = msgspec.msgpack.Encoder()

Walk = Callable[[float], tuple[float, float]]
"""The places of both on the line between them, at a time."""


class Scenario(Struct, frozen=True):
    """One column of a table."""

    table: str
    case: str
    paper_raw: int
    paper_rings: int
    walk: Walk
    seconds: float


class ScenarioCount(Struct, frozen=True):
    """What was sent until the end, or until both knew that they are near."""

    raw: int
    messages: int
    notices: int
    acks: int
    bytes: int
    near: bool


def _closer(a: float, b: float) -> Scenario:
    speeds = _speeds(a, b)
    seconds = (COURSE_M - WITHIN_M) / (a + b) + 3.0
    paper = {"both slow": (4, 2), "one fast": (7, 4), "both fast": (2, 2)}[speeds]
    return Scenario(
        "Table 6.2", f"closer, {speeds}", *paper, lambda t: (a * t, COURSE_M - b * t), seconds
    )


def _away(a: float, b: float) -> Scenario:
    speeds = _speeds(a, b)
    start = 1.1 * WITHIN_M
    seconds = (COURSE_M - start) / (a + b)
    paper = {"both slow": (5, 2), "one fast": (8, 3), "both fast": (3, 2)}[speeds]
    return Scenario(
        "Table 6.3", f"away, {speeds}", *paper, lambda t: (-a * t, start + b * t), seconds
    )


def _speeds(a: float, b: float) -> str:
    return "one fast" if a != b else "both slow" if a == SLOW else "both fast"


def _between(time: float) -> tuple[float, float]:
    """Both walk to and fro, and stay within two yards of where they began."""
    way = 4.0 * YARD_M
    there = abs((SLOW * time) % (2.0 * way) - way) - way / 2.0
    return there, COURSE_M - there


PACES = ((SLOW, SLOW), (FAST, SLOW), (FAST, FAST))
SCENARIOS: tuple[Scenario, ...] = (
    *(_closer(*pace) for pace in PACES),
    *(_away(*pace) for pace in PACES),
    Scenario("Table 6.4", "stay far", 10, 1, lambda t: (0.0, COURSE_M), 10.0),
    Scenario("Table 6.5", "stay close", 4, 2, lambda t: (0.0, 0.8 * WITHIN_M), 4.0),
    Scenario("Table 6.6", "at an intermediate distance", 63, 1, _between, 32.0),
)


def count_scenario(scenario: Scenario, settings: PairSettings) -> ScenarioCount:
    """Return what two walkers say."""
    members = (PairMember("a", settings), PairMember("b", settings))
    raw = crossings = notices = acks = weight = 0
    for second in range(int(scenario.seconds) + 1):
        waiting: list[tuple[int, PairStep]] = []
        for member, x in zip(members, scenario.walk(float(second)), strict=True):
            point: Point = (x, 0.0, UP_M)
            member.take(point, float(second))
            raw += 1
        for who in (0, 1):
            waiting.append((who, members[who].elapse(float(second))))
            while waiting:
                sender, step = waiting.pop(0)
                for message in step.messages:
                    weight += len(_ENCODER.encode(message))
                    if not isinstance(message, Crossing):
                        acks += 1
                    elif message.regions is not None and message.regions.near and crossings:
                        # It says that the relationship is satisfied.
                        notices += 1
                    elif message.regions is not None:
                        crossings += 1
                    answer = members[1 - sender].receive(message, float(second))
                    waiting.append((1 - sender, answer))
        if members[0].near and members[1].near:
            break
    return ScenarioCount(raw, crossings, notices, acks, weight, bool(members[0].near))


def scenario_rows(
    ring: SilenceStrategy, ours: SilenceStrategy
) -> tuple[list[ExperimentRow], list[ExperimentFigure]]:
    """Return Tables 6.2 to 6.6, and Figures 6.1, 6.2 and 6.4."""
    rows: list[ExperimentRow] = []
    rings: list[int] = []
    best: list[int] = []
    for each in SCENARIOS:
        by_ring = count_scenario(each, PairSettings(WITHIN_M, ring))
        by_ours = count_scenario(each, PairSettings(WITHIN_M, ours))
        rings.append(by_ring.messages)
        best.append(by_ours.messages)
        rows += [
            ExperimentRow(each.table, f"{each.case}: raw", each.paper_raw, by_ring.raw, "messages"),
            ExperimentRow(
                each.table, f"{each.case}: {ring.name}", each.paper_rings, by_ring.messages,
                "messages", note=COUNT_NOTE,
            ),
            ExperimentRow(
                each.table, f"{each.case}: {ours.name}", each.paper_rings, by_ours.messages,
                "messages", note=COUNT_NOTE,
            ),
            ExperimentRow(each.table, f"{each.case}: notices", None, by_ours.notices, "messages"),
            ExperimentRow(each.table, f"{each.case}: acks", None, by_ours.acks, "messages"),
        ]  # fmt: skip
    return rows, _figures(rings, best, ring.name, ours.name)


COUNT_NOTE = (
    "Set-up and crossings; the definition, the notice and acknowledgements are apart. A message "
    "that says that both are near is the notice."
)


def _figures(rings: list[int], best: list[int], ring: str, ours: str) -> list[ExperimentFigure]:
    x = [1.0, 2.0, 3.0]

    def figure(name: str, title: str, parts: dict[str, slice]) -> ExperimentFigure:
        curves = []
        for label, part in parts.items():
            cases = SCENARIOS[part]
            curves += [
                Curve(f"{label}raw, text", x, [float(each.paper_raw) for each in cases]),
                Curve(f"{label}rings, text", x, [float(each.paper_rings) for each in cases]),
                Curve(f"{label}{ring}", x, [float(value) for value in rings[part]]),
                Curve(f"{label}{ours}", x, [float(value) for value in best[part]]),
            ]
        return ExperimentFigure(
            name, title, "1 both slow, 2 one fast, 3 both fast", "messages", tuple(curves)
        )

    closer, away = slice(0, 3), slice(3, 6)
    return [
        figure("figure-6-1", "Figure 6.1: moving closer", {"": closer}),
        figure("figure-6-2", "Figure 6.2: moving away", {"": away}),
        figure("figure-6-4", "Figure 6.4: closer and away", {"closer, ": closer, "away, ": away}),
    ]


def squared_ring_detects() -> tuple[bool, bool]:
    """Return whether walkers who meet head on are detected: by true distances, and as printed.

    The text's code subtracts the wanted distance from a squared distance, and compares a squared
    distance with the result.
    """
    return tuple(_head_on(squared=squared) for squared in (False, True))  # type: ignore[return-value]


def _head_on(squared: bool) -> bool:
    """Walk to the middle and stay there; the ring is as in the text's listings of chapter 5."""
    power = 2.0 if squared else 1.0
    reported = [0.0, COURSE_M]
    radius = (COURSE_M**power - WITHIN_M) / 2.0
    for time in np.arange(0.0, COURSE_M / (2.0 * SLOW) + 5.0, 1.0):
        places = (
            min(SLOW * float(time), COURSE_M / 2.0),
            max(COURSE_M - SLOW * float(time), COURSE_M / 2.0),
        )
        for who in (0, 1):
            if abs(places[who] - reported[who]) ** power > radius:
                reported[who] = places[who]
                radius = (abs(places[who] - places[1 - who]) ** power - WITHIN_M) / 2.0
                if radius <= 0.0:
                    return True
    return False
