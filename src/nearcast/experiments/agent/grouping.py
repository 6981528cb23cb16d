"""Subscribers with equal rules share them (seed C, 6.1.2 and 8.2): Figures 8-4 and 8-5."""

import random
from collections.abc import Sequence

import numpy as np

from nearcast.core.engine.engine import Engine
from nearcast.core.language import parse
from nearcast.core.model.event import Event, Relevance, Subscription
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.inputs import Input, Subscribed
from nearcast.experiments.agent.cpu_time import least_cpu_us
from nearcast.experiments.experiment_result import Curve, ExperimentFigure, ExperimentRow

ATOMS = 8
RULES = 2**ATOMS - 1
"""All sets of atoms but the empty one: a vector without any relevance is refused."""
SUBJECT = "uform"
MOST_COPIES = 200_000

MODEL_NOTE = (
    f"In brackets the model NS(1 - (1 - 1/NS)^n), NS = {RULES}: Equation 8-2 counts 2^8 sets of "
    "atoms, and the empty one selects nothing and is refused. The figure is a picture, without "
    "numbers in the text. Ours: distinct rules of the engine after n subscribers with random sets."
)
EVALUATIONS_NOTE = (
    "Rules evaluated for an event that matches all subscribers but those who want one atom "
    "alone. Without grouping each subscriber that it matches takes an evaluation of its own; the "
    "model, in brackets, has one for each subscriber."
)
TIME_NOTE = (
    "CPU of matching an event with all subscribers, priorities included. Without grouping: every "
    "subscriber has a filter that no other has."
)


def expected_rules(users: int) -> float:
    """How many distinct rules n users have, by the text's model."""
    return float(RULES * (1 - (1 - 1 / RULES) ** users))


def grouping(
    draw: random.Random, users: Sequence[int], ungrouped: Sequence[int], runs: int
) -> tuple[list[ExperimentRow], tuple[ExperimentFigure, ...]]:
    """Distinct rules, evaluations and CPU as subscribers grow, with and without grouping."""
    rows_4: list[ExperimentRow] = []
    rows_5: list[ExperimentRow] = []
    rules: list[float] = []
    evaluations: list[float] = []
    judged: list[float] = []
    grouped_us: list[float] = []
    apart_us: list[float] = []
    engine, have = Engine(), 0
    for count in users:
        _subscribe(engine, draw, have, count, alone=False)
        have = count
        grouped, apart = _evaluations(engine)
        evaluations.append(grouped)
        judged.append(apart)
        rules.append(len(engine.matcher.priorities.rules))
        grouped_us.append(_match_us(engine, count, runs))
        rows_4.append(
            ExperimentRow(
                "Figure 8-4", f"distinct rules of {count:,} users", None, rules[-1], "rules",
                note=MODEL_NOTE, model=round(expected_rules(count), 1),
            )
        )  # fmt: skip
        rows_5 += (
            ExperimentRow(
                "Figure 8-5", f"evaluations, {count:,} users, grouped", None, evaluations[-1],
                "rules/event", note=EVALUATIONS_NOTE, model=round(expected_rules(count), 1),
            ),
            ExperimentRow(
                "Figure 8-5", f"evaluations, {count:,} users, not grouped", None, judged[-1],
                "rules/event", note=EVALUATIONS_NOTE, model=count,
            ),
            ExperimentRow(
                "Figure 8-5", f"matching, {count:,} users, grouped", None, round(grouped_us[-1], 2),
                "µs CPU/event", note=TIME_NOTE,
            ),
        )  # fmt: skip
    engine, have = Engine(), 0
    for count in ungrouped:
        _subscribe(engine, draw, have, count, alone=True)
        have = count
        apart_us.append(_match_us(engine, count, runs))
        rows_5.append(
            ExperimentRow(
                "Figure 8-5", f"matching, {count:,} users, not grouped", None,
                round(apart_us[-1], 2), "µs CPU/event", note=TIME_NOTE,
            )
        )  # fmt: skip
    x = [float(count) for count in users]
    y = [float(count) for count in ungrouped]
    figures = (
        ExperimentFigure(
            "figure-8-4", "Figure 8-4: distinct rules", "users", "rules",
            (Curve("ours", x, rules), Curve("model", x, [expected_rules(n) for n in users])),
            x_log=True,
        ),
        ExperimentFigure(
            "figure-8-5-evaluations", "Figure 8-5: rules evaluated for an event", "users",
            "evaluations", (
                Curve("grouped", x, evaluations),
                Curve("not grouped", x, judged),
                Curve("model, grouped", x, [expected_rules(n) for n in users]),
            ),
            x_log=True, y_log=True,
        ),
        ExperimentFigure(
            "figure-8-5-time", "Figure 8-5: time to match an event", "users", "µs CPU",
            (Curve("grouped", x, grouped_us), Curve("not grouped", y, apart_us)),
            x_log=True, y_log=True,
        ),
    )  # fmt: skip
    return [*rows_4, *rows_5], figures


def _subscribe(engine: Engine, draw: random.Random, have: int, want: int, *, alone: bool) -> None:
    """Add subscribers with random sets of atoms up to a number."""
    atoms = " OR ".join(f"a{i} = 1" for i in range(ATOMS))
    shared = parse(atoms)
    inputs: list[Input] = []
    for i in range(have, want):
        chosen = draw.randint(1, RULES)
        vector = tuple(3 * (chosen >> atom & 1) for atom in range(ATOMS))
        where = parse(f"{atoms} OR own = {i}") if alone else shared
        if alone:
            vector = (*vector, 1)
        relevance = Relevance(vector)
        inputs.append(
            Subscribed(Subscription(f"s{i}", f"n{i}", SUBJECT, where, relevance=relevance))
        )
    refusals = engine.step(inputs, 0.0).refusals
    assert not refusals, refusals[0]


def _batch(count: int) -> EventBatch:
    """Events that differ, each with all atoms true but one: only who wants that alone misses it."""
    return EventBatch.of(
        [
            Event(
                f"{i}",
                SUBJECT,
                "publisher",
                1.0,
                {f"a{j}": int(i % ATOMS != j) for j in range(ATOMS)},
            )
            for i in range(count)
        ]
    )


def _evaluations(engine: Engine) -> tuple[float, float]:
    """How many rules are evaluated for an event, on average of those that differ.

    Second, how many it would be if each match took an evaluation of its own.
    """
    rules = engine.matcher.priorities.rules
    before = rules.evaluated
    matches = engine.matcher.match(_batch(ATOMS))
    return (rules.evaluated - before) / ATOMS, len(matches.event) / ATOMS


def _match_us(engine: Engine, users: int, runs: int) -> float:
    events = int(np.clip(MOST_COPIES // users, 1, 64))
    batch = _batch(events)
    engine.matcher.match(batch)
    return least_cpu_us({"": lambda run: engine.matcher.match(batch)}, runs, events)[""]
