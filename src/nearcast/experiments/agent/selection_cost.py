"""What selection costs and gains (seed C, 8.1): Figures 8-1 and 8-3, Appendix A's client figures.

CPU is that of the engine, from the payload of an event to the copies of each session, in batches of
64. Elapsed time adds what a link of 10 Mbit/s takes for the messages, one after the other.
"""

import random
from collections.abc import Callable, Sequence
from itertools import count

import msgspec
import numpy as np
from msgspec import Struct

from nearcast.core.adaptation.relevance import Levels
from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.core.engine.engine import Engine
from nearcast.core.model.event import Event, Relevance, Subscription
from nearcast.core.model.event_run import EventRun
from nearcast.core.model.inputs import Classified, Input, Published, Subscribed
from nearcast.core.model.payload import attributes_of
from nearcast.experiments.agent.cpu_time import least_cpu_us
from nearcast.experiments.agent.worked_example import UNITS, VECTOR
from nearcast.experiments.experiment_result import Curve, ExperimentFigure, ExperimentRow
from nearcast.wire.mqtt import Publish, encode

BATCH = 64
CLIENTS = 10
LINK_BITS_PER_S = 10_000_000
PAYLOAD_BYTES = 100
ITEMS = 60
"""Events of Figure 8-3, as in Appendix A."""
SUBJECT, PUBLISHER = "uform", "publisher"
PLAIN, MATCHED, FILTERED, PRIORITISED = "plain", "matched", "filter", "three levels"
KINDS = {
    PLAIN: "plain forwarding",
    MATCHED: "plain, but matched event by event",
    FILTERED: "a filter without relevance",
    PRIORITISED: "the same filter, three levels",
}
SHORT_CLIENTS = 1_000
MOST_COPIES = 400_000
"""Of one measurement, so that its memory is bounded."""

CPU_NOTE = (
    "CPU of the engine for an event, from its payload to the copies of each session, at batch 64; "
    "the least of several runs, in turns."
)
AIM_NOTE = (
    "Aims: three levels at most 2 µs more than the same filter without relevance; a filter at most "
    "12 µs more than plain forwarding."
)
OVERHEAD_NOTE = (
    "(Tconditional - Tunconditional) / Tunconditional. Elapsed: CPU of the engine, and then the "
    f"messages to {CLIENTS} clients at 10 Mbit/s, one after the other; every event is selected. "
    "The paper measured a Java expert system on a LAN of its time."
)
GAIN_NOTE = (
    f"{ITEMS} events arrive at 10 Mbit/s and leave to {CLIENTS} clients at 10 Mbit/s; the time "
    "until the last selected event has arrived everywhere. Plain forwarding sends all of them."
)
PAYS_NOTE = (
    "As if deciding and sending took turns: what is not selected saves the link, and every event "
    "costs what deciding takes more. Where they overlap, as in the rows above, selection never "
    "takes visibly longer."
)


def payloads_of(draw: random.Random, selected: Sequence[bool]) -> list[bytes]:
    """Payloads of events that the filter selects or not, all of one size."""
    found = []
    for is_selected in selected:
        kind = draw.choice(("infantry", "armor", "artillery"))
        size = draw.randint(1, 100) + (0 if is_selected else 100)
        values = {"unittype": kind, "size": size, "text": ""}
        short = PAYLOAD_BYTES - len(msgspec.json.encode(values))
        found.append(msgspec.json.encode({**values, "text": "x" * short}))
    return found


class SelectionWays(Struct):
    """Engines with the same clients that select in different ways, fed with the same payloads."""

    clients: int
    batches: Sequence[Sequence[bytes]]
    """By run and batch: payloads."""
    per_run: int = 1

    def ways(self) -> dict[str, Callable[[int], object]]:
        """What is done for a run in each way."""
        plain, matched = self._engine(None), self._engine(None)
        return {
            PLAIN: lambda run: [self._route(plain, *each) for each in self._of(run)],
            MATCHED: self._stepping(matched),
            FILTERED: self._stepping(self._engine(None, filtered=True)),
            PRIORITISED: self._stepping(self.prioritising()),
        }

    def prioritising(self) -> Engine:
        """An engine whose clients have the filter with relevance."""
        return self._engine(VECTOR, filtered=True)

    def _engine(self, levels: Levels | None, *, filtered: bool = False) -> Engine:
        engine = Engine()
        relevance = None if levels is None else Relevance(levels)
        where = UNITS if filtered else None
        wants: list[Input] = [
            Subscribed(Subscription(f"s{i}", f"n{i}", SUBJECT, where, relevance=relevance))
            for i in range(self.clients)
        ]
        engine.step(wants, 0.0)
        if relevance is not None:
            links = [Classified(f"n{i}", "network", 1 + i % 3) for i in range(self.clients)]
            engine.step(links, 0.0)
        return engine

    def _stepping(self, engine: Engine) -> Callable[[int], object]:
        return lambda run: [self._step(engine, *each) for each in self._of(run)]

    def _of(self, run: int) -> list[tuple[int, Sequence[bytes]]]:
        first = run * self.per_run
        return [(number, self.batches[number]) for number in range(first, first + self.per_run)]

    def _route(self, engine: Engine, number: int, payloads: Sequence[bytes]) -> int:
        ids = [f"{number}.{i}" for i in range(len(payloads))]
        run = EventRun(ids, SUBJECT, PUBLISHER, 1.0, None, payloads, 0, "", b"", None)
        route = engine.route(PUBLISHER, SUBJECT)
        assert route is not None
        engine.note(run)
        return _read(Deliveries.along(route, run))

    def _step(self, engine: Engine, number: int, payloads: Sequence[bytes]) -> int:
        return sum(map(_read, engine.step(_published(number, payloads), 1.0).sent))


def _published(number: int, payloads: Sequence[bytes]) -> list[Input]:
    return [
        Published(
            Event(f"{number}.{i}", SUBJECT, PUBLISHER, 1.0, attributes_of(payload), payload=payload)
        )
        for i, payload in enumerate(payloads)
    ]


def _read(deliveries: Deliveries) -> int:
    return sum(len(places) for _, places, _ in deliveries.by_session())


def selection_us(draw: random.Random, clients: int, runs: int, batches: int) -> dict[str, float]:
    """Microseconds of CPU an event in each way."""
    # Short runs are many, because noise of a machine is longer than they are.
    runs = runs * 4 if clients <= SHORT_CLIENTS else runs
    per_run = max(1, min(batches, MOST_COPIES // (clients * BATCH)))
    size = BATCH if clients * BATCH <= MOST_COPIES else max(1, MOST_COPIES // clients)
    payloads = [payloads_of(draw, [True] * size) for _ in range(runs * per_run)]
    ways = SelectionWays(clients, payloads, per_run).ways()
    return least_cpu_us(ways, runs, per_run * size)


def selection_costs(
    draw: random.Random, clients: Sequence[int], runs: int, batches: int
) -> tuple[list[ExperimentRow], ExperimentFigure, dict[str, float]]:
    """CPU an event in each way as clients grow; and those for the first number of clients."""
    rows: list[ExperimentRow] = []
    found = {each: selection_us(draw, each, runs, batches) for each in clients}
    for number, of_kind in found.items():
        rows += [
            ExperimentRow(
                "Cost of selection", f"{KINDS[kind]}, {number:,} clients", None, round(us, 2),
                "µs CPU/event", note=CPU_NOTE,
            )
            for kind, us in of_kind.items()
        ]  # fmt: skip
    first = found[clients[0]]
    more = {
        "a filter, more than plain forwarding": (first[FILTERED] - first[PLAIN], 12.0),
        "three levels, more than the filter": (first[PRIORITISED] - first[FILTERED], 2.0),
    }
    rows += [
        ExperimentRow(
            "Cost of selection", f"{case}, {clients[0]} clients", None, round(us, 2),
            "µs CPU/event", note=AIM_NOTE, at_most=aim,
        )
        for case, (us, aim) in more.items()
    ]  # fmt: skip
    fit = linear_fit([float(each) for each in clients], [f[PRIORITISED] for f in found.values()])
    rows.append(
        ExperimentRow(
            "Appendix A, Figure 7", "how linear CPU grows with users (r²), one server", None,
            round(fit, 4),
            note="The text calls it linear. Several servers wait for the overlay.",
        )
    )  # fmt: skip
    curves = tuple(
        Curve(KINDS[kind], [float(c) for c in clients], [f[kind] for f in found.values()])
        for kind in KINDS
    )
    figure = ExperimentFigure(
        "selection-cost", "CPU of selection as clients grow, batch 64", "clients",
        "µs CPU an event", curves, x_log=True, y_log=True,
    )  # fmt: skip
    return rows, figure, first


def linear_fit(x: Sequence[float], y: Sequence[float]) -> float:
    """The square of the correlation of two columns."""
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def copy_s() -> float:
    """Seconds that one message to one client takes on the link."""
    frame = encode(Publish(SUBJECT, b"x" * PAYLOAD_BYTES))
    return 8 * len(frame) / LINK_BITS_PER_S


def figure_8_1(
    draw: random.Random, counts: Sequence[int], runs: int
) -> tuple[list[ExperimentRow], ExperimentFigure]:
    """The overhead of selection for ten clients, by CPU alone and with a link of 10 Mbit/s."""
    rows: list[ExperimentRow] = []
    elapsed: list[float] = []
    cpu: list[float] = []
    for events in counts:
        us = selection_us(draw, CLIENTS, runs, max(1, events // BATCH))
        link_us = 1e6 * CLIENTS * copy_s()
        extra = us[PRIORITISED] - us[PLAIN]
        elapsed.append(100 * extra / (us[PLAIN] + link_us))
        cpu.append(100 * extra / us[PLAIN])
        rows.append(
            ExperimentRow(
                "Figure 8-1", f"overhead, {events} events, 10 Mbit/s", None, round(elapsed[-1], 2),
                "%", note=OVERHEAD_NOTE,
            )
        )  # fmt: skip
    summary = {"least": (0.5, min(elapsed)), "most": (3.5, max(elapsed))}
    average = sum(elapsed) / len(elapsed)
    rows += [
        ExperimentRow(
            "Figure 8-1", f"{name} overhead", paper, round(ours, 2), "%", note=OVERHEAD_NOTE
        )
        for name, (paper, ours) in {**summary, "average": (1.5, average)}.items()
    ]
    case = "average overhead in CPU of the engine alone"
    rows.append(
        ExperimentRow("Figure 8-1", case, None, round(sum(cpu) / len(cpu)), "%", note=CPU_NOTE)
    )
    rows.append(
        ExperimentRow(
            "Appendix A, Figure 6", "overhead, publish/subscribe", 1.5, round(average, 2), "%",
            note=OVERHEAD_NOTE,
        )
    )  # fmt: skip
    x = [float(events) for events in counts]
    curves = (
        Curve("ours, 10 Mbit/s", x, elapsed),
        Curve("the paper's average", x, [1.5] * len(x)),
    )
    title = "Figure 8-1: overhead of selection, 10 clients"
    return rows, ExperimentFigure("figure-8-1", title, "events", "overhead, %", curves, x_log=True)


def figure_8_3(
    draw: random.Random, us: dict[str, float]
) -> tuple[list[ExperimentRow], ExperimentFigure]:
    """The time until the last selected event arrived, by the share of events selected."""
    shares = list(range(10, 101, 10))
    engine, steps = SelectionWays(CLIENTS, ()).prioritising(), count()

    def select(wanted: Sequence[bool]) -> list[bool]:
        return selected_by(engine, next(steps), payloads_of(draw, wanted))

    plain = elapsed_s([True] * ITEMS, us[PLAIN])
    times: dict[str, list[float]] = {"best": [], "random": [], "worst": []}
    for share in shares:
        wanted = round(ITEMS * share / 100)
        rest = ITEMS - wanted
        chosen = [True] * wanted + [False] * rest
        times["best"].append(elapsed_s(select(chosen), us[PRIORITISED]))
        times["worst"].append(elapsed_s(select([*chosen[1:], True]), us[PRIORITISED]))
        orders = [draw.sample(chosen, ITEMS) for _ in range(20)]
        several = [elapsed_s(select(each), us[PRIORITISED]) for each in orders]
        times["random"].append(sum(several) / len(several))
    rows = [
        ExperimentRow(
            "Figure 8-3", f"{share} % selected, random order", None, round(1e3 * s, 2), "ms",
            note=GAIN_NOTE,
        )
        for share, s in zip(shares, times["random"], strict=True)
    ]  # fmt: skip
    case = "plain forwarding of all"
    rows.append(ExperimentRow("Figure 8-3", case, None, round(1e3 * plain, 2), "ms"))
    below = pays_below(us)
    for source in ("Figure 8-3", "Appendix A, Figure 10"):
        case = "selection pays below so many events selected"
        rows.append(ExperimentRow(source, case, 90, round(below, 1), "%", note=PAYS_NOTE))
    x = [float(share) for share in shares]
    curves = tuple(Curve(name, x, [1e3 * s for s in found]) for name, found in times.items())
    title = "Figure 8-3: time until the last selected event arrived"
    curves = (*curves, Curve("without selection", x, [1e3 * plain] * len(x)))
    return rows, ExperimentFigure("figure-8-3", title, "% of events selected", "ms", curves)


def selected_by(engine: Engine, number: int, payloads: Sequence[bytes]) -> list[bool]:
    """Which of some events an engine delivers to its clients."""
    sent = engine.step(_published(number, payloads), 1.0).deliveries
    found = {each.event.id for each in sent}
    return [f"{number}.{i}" in found for i in range(len(payloads))]


def elapsed_s(selected: Sequence[bool], us: float) -> float:
    """When the last selected event has reached all clients: each of three stages in order.

    The publisher's link, the engine, and the link to the clients work at the same time.
    """
    arrived = decided = left = 0.0
    for is_selected in selected:
        arrived += copy_s()
        decided = max(decided, arrived) + us / 1e6
        if is_selected:
            left = max(left, decided) + CLIENTS * copy_s()
    return left


def pays_below(us: dict[str, float]) -> float:
    """The share of selected events, in percent, from which selection no longer saves time.

    As if deciding and sending took turns: what is not selected saves the link, and every event
    costs what deciding takes more.
    """
    link_us = 1e6 * CLIENTS * copy_s()
    return 100 * (1 - (us[PRIORITISED] - us[PLAIN]) / link_us)
