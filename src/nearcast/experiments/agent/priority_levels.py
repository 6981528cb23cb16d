"""How the number of priority levels changes accuracy and cost (seed C, 6.2.1)."""

import random
from collections.abc import Sequence
from itertools import combinations

from nearcast.core.adaptation.awareness import default_awareness
from nearcast.core.adaptation.relevance import level_of
from nearcast.core.engine.engine import Engine
from nearcast.core.engine.settings import EngineSettings
from nearcast.core.language import parse
from nearcast.core.model.event import Event, Relevance, Subscription
from nearcast.core.model.inputs import Classified, Input, Published, Subscribed
from nearcast.experiments.agent.cpu_time import least_cpu_us
from nearcast.experiments.experiment_result import Curve, ExperimentFigure, ExperimentRow

KINDS = 24
"""Atoms of the filter, each with a relevance of its own."""
BATCH, CLIENTS = 64, 10
SUBSCRIPTIONS = 10
"""Of a session whose class changes."""
MEASUREMENTS, STEP_KBPS, TOP_KBPS = 1_000, 150.0, 3_750.0
SUBJECT, NETWORK = "uform", "network"
SOURCE = "6.2.1"

ACCURACY_NOTE = (
    f"{KINDS} kinds of events, each with another relevance from 0 to 1, to a client in the worst "
    "context: of all pairs of kinds, how many get different priorities."
)
CHANGES_NOTE = (
    f"A link whose throughput wanders by {STEP_KBPS:g} kb/s a measurement between 0 and "
    f"{TOP_KBPS:g} kb/s, in equal classes with the usual hysteresis of 100 kb/s."
)
COST_NOTE = f"CPU of the engine, {CLIENTS} clients, batches of {BATCH}."
CHANGE_NOTE = (
    f"CPU of the engine, in batches of {BATCH}, three levels: the class, and the row of the matrix "
    "of each subscription. Apart from that the broker writes a row of its log, and puts in order "
    "what waits. Aim: under 5 µs."
)


def priority_levels(
    draw: random.Random, numbers: Sequence[int], runs: int
) -> tuple[list[ExperimentRow], ExperimentFigure]:
    """Accuracy, changes of class and CPU for each number of levels."""
    relevances = [draw.uniform(0.001, 1.0) for _ in range(KINDS)]
    walk = _throughputs(draw)
    rows: list[ExperimentRow] = []
    accuracies: list[float] = []
    for levels in numbers:
        accuracies.append(100 * accuracy(levels, relevances))
        event_us, change_us = _costs(levels, relevances, draw, runs)
        for what, ours, unit, note in (
            ("pairs told apart", accuracies[-1], "%", ACCURACY_NOTE),
            (f"changes of class in {MEASUREMENTS:,}", _changes(levels, walk), "", CHANGES_NOTE),
            ("an event", event_us, "µs CPU", COST_NOTE),
            ("a change of class", change_us, "µs CPU", COST_NOTE),
        ):
            case = f"{levels} levels: {what}"
            rows.append(ExperimentRow(SOURCE, case, None, round(ours, 2), unit, note=note))
    figure = ExperimentFigure(
        "levels", "6.2.1: how exactly priorities follow relevance", "levels",
        "% of pairs with different priorities",
        (Curve("ours", [float(each) for each in numbers], accuracies),),
    )  # fmt: skip
    return rows, figure


def class_change(runs: int) -> ExperimentRow:
    """What a change of class costs for a session with several subscriptions."""
    engine = Engine()
    where, relevance = parse("kind = 0 OR kind = 1 OR kind = 2"), Relevance((3, 2, 1))
    wants: list[Input] = [
        Subscribed(
            Subscription(f"s{i}.{each}", f"n{i}", f"{SUBJECT}/{each}", where, relevance=relevance)
        )
        for i in range(BATCH)
        for each in range(SUBSCRIPTIONS)
    ]
    engine.step(wants, 0.0)
    changes: list[list[Input]] = [
        [Classified(f"n{i}", NETWORK, 1 + run % 2) for i in range(BATCH)] for run in range(runs)
    ]
    found = least_cpu_us({"change": lambda run: engine.step(changes[run], 1.0)}, runs, BATCH)
    case = f"a change of class, {SUBSCRIPTIONS} subscriptions"
    ours = round(found["change"], 2)
    return ExperimentRow(
        "Cost of selection", case, None, ours, "µs CPU", note=CHANGE_NOTE, at_most=5.0
    )


def accuracy(levels: int, relevances: Sequence[float]) -> float:
    """The share of pairs of events of different relevance that get different priorities."""
    engine = _engine(levels, relevances, clients=1)
    engine.step([Classified("n0", NETWORK, 1)], 1.0)
    events = [_event(f"e{kind}", kind) for kind in range(len(relevances))]
    found = engine.step(list(map(Published, events)), 2.0).deliveries
    priority = {each.event.id: each.priority for each in found}
    pairs = list(combinations(range(len(relevances)), 2))
    return sum(priority[f"e{a}"] != priority[f"e{b}"] for a, b in pairs) / len(pairs)


def _engine(levels: int, relevances: Sequence[float], clients: int) -> Engine:
    engine = Engine(EngineSettings(levels=levels))
    where = parse(" OR ".join(f"kind = {kind}" for kind in range(len(relevances))))
    vector = tuple(level_of(each, levels) for each in relevances)
    wants: list[Input] = [
        Subscribed(Subscription(f"s{i}", f"n{i}", SUBJECT, where, relevance=Relevance(vector)))
        for i in range(clients)
    ]
    engine.step(wants, 0.0)
    return engine


def _event(name: str, kind: int) -> Event:
    return Event(name, SUBJECT, "publisher", 1.0, {"kind": kind})


def _costs(
    levels: int, relevances: Sequence[float], draw: random.Random, runs: int
) -> tuple[float, float]:
    """Microseconds of CPU for an event, and for a change of a client's class."""
    engine = _engine(levels, relevances, CLIENTS)
    links: list[Input] = [
        Classified(f"n{i}", NETWORK, draw.randint(1, levels)) for i in range(CLIENTS)
    ]
    engine.step(links, 1.0)
    events: list[list[Input]] = [
        [Published(_event(f"{run}.{i}", draw.randrange(KINDS))) for i in range(BATCH)]
        for run in range(runs)
    ]
    changes: list[list[Input]] = [
        [
            Classified(f"n{i % CLIENTS}", NETWORK, 1 + (run + i // CLIENTS) % levels)
            for i in range(BATCH)
        ]
        for run in range(runs)
    ]
    found = least_cpu_us(
        {
            "event": lambda run: engine.step(events[run], 2.0),
            "change": lambda run: engine.step(changes[run], 2.0),
        },
        runs,
        BATCH,
    )
    return found["event"], found["change"]


def _throughputs(draw: random.Random) -> list[float]:
    found, kbps = [], TOP_KBPS / 2
    for _ in range(MEASUREMENTS):
        kbps = min(TOP_KBPS, max(0.0, kbps + draw.gauss(0.0, STEP_KBPS)))
        found.append(kbps)
    return found


def _changes(levels: int, throughputs: Sequence[float]) -> int:
    module = default_awareness(levels).modules[0]
    changes, before = 0, module.classify(throughputs[0])
    for kbps in throughputs:
        now = module.classify(kbps, before)
        changes += now != before
        before = now
    return changes
