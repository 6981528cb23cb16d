"""The cost of a fix: by the number of relationships of a broker, and of one node.

In the first table the relationships are spread evenly, two for each of their members; in the second
one node is in all of them. Pairs within 100 m in a city of 20 km, whose members move some metres at
each fix; all is decided by the engine, in steps of up to 256 fixes as in the broker.
"""

import random
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from nearcast.benchmarks.this_machine import machine
from nearcast.benchmarks.timing import cpu_s
from nearcast.core.engine.engine import Engine
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import Input, Moved, RelationshipDefined

AT_ONCE = 256
SIDE_DEGREES = 0.18
STEP_DEGREES = 0.0001
LEAST_NODES = 1_000


class RelationshipBenchSettings(Struct, frozen=True):
    """What is measured."""

    spread: tuple[int, ...] = (0, 100, 1_000, 10_000, 100_000)
    on_one_node: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    fixes: int = 20_000
    runs: int = 3
    seed: int = 1


class RelationshipCost(Struct, frozen=True):
    """The cost of fixes with so many relationships."""

    relationships: int
    nodes: int
    define_us: float
    """Microseconds to define one."""
    fix_us: float
    """Microseconds a fix of a member, the best of several runs."""
    notices: int
    """How often a state changed while fixes were made."""


class RelationshipBenchResult(Struct, frozen=True):
    """All figures."""

    settings: RelationshipBenchSettings
    machine: dict[str, str]
    spread: list[RelationshipCost]
    on_one_node: list[RelationshipCost]
    benchmark: str = "relationships"


def run(
    settings: RelationshipBenchSettings, step: Callable[[str], None]
) -> RelationshipBenchResult:
    """Measure; `step` is told what is measured."""
    spread = []
    for count in settings.spread:
        step(f"{count} relationships")
        spread.append(_spread(settings, count))
    on_one_node = []
    for count in settings.on_one_node:
        step(f"{count} relationships of one node")
        on_one_node.append(_on_one_node(settings, count))
    return RelationshipBenchResult(settings, machine(), spread, on_one_node)


def _spread(settings: RelationshipBenchSettings, count: int) -> RelationshipCost:
    nodes = [f"node-{number}" for number in range(max(count, LEAST_NODES))]
    # A ring: the members of each relationship are neighbours, so every node is in two.
    pairs = [(nodes[at], nodes[(at + 1) % count]) for at in range(count)]
    moving = nodes[: count or None]
    return _measured(settings, nodes, pairs, moving)


def _on_one_node(settings: RelationshipBenchSettings, count: int) -> RelationshipCost:
    others = [f"node-{number}" for number in range(count)]
    return _measured(settings, ["one", *others], [("one", other) for other in others], ["one"])


def _measured(
    settings: RelationshipBenchSettings,
    nodes: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    moving: Sequence[str],
) -> RelationshipCost:
    draw = random.Random(settings.seed)
    at = {node: _anywhere(draw) for node in nodes}
    engine = Engine()
    engine.step([Moved(node, position) for node, position in at.items()], 1.0)
    defined: list[Input] = [
        RelationshipDefined(f"pair-{number}", "bench", pair, 2, within=100.0)
        for number, pair in enumerate(pairs)
    ]
    define_s = cpu_s(lambda: engine.step(defined, 1.5))
    fixes = max(2 * len(moving), settings.fixes // max(1, len(pairs) // len(moving)))
    best, now, notices = float("inf"), 2.0, 0
    for _ in range(settings.runs):
        ticks: list[list[Input]] = []
        for first in range(0, fixes, AT_ONCE):
            tick: list[Input] = []
            for number in range(first, min(first + AT_ONCE, fixes)):
                node = moving[number % len(moving)]
                at[node] = _moved(draw, at[node])
                tick.append(Moved(node, at[node]))
            ticks.append(tick)
        start = time.process_time()
        for tick in ticks:
            now += 1.0
            notices += len(engine.step(tick, now).notices)
        best = min(best, time.process_time() - start)
    return RelationshipCost(
        len(pairs), len(nodes), 1e6 * define_s / max(1, len(pairs)), 1e6 * best / fixes, notices
    )


def _anywhere(draw: random.Random) -> Position:
    return Position(53.25 + draw.random() * SIDE_DEGREES, -6.4 + draw.random() * SIDE_DEGREES)


def _moved(draw: random.Random, at: Position) -> Position:
    north, east = (draw.uniform(-STEP_DEGREES, STEP_DEGREES) for _ in range(2))
    return Position(at.lat + north, at.lon + east)
