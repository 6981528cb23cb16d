"""Who gets an event with recovery on, compared with a plain account of who was in range of whom.

Whoever stays in range of a holder for two beacon periods, while the event is true, is owed it. The
text wishes for such a guarantee and leaves it open. Nodes drive up and down a road longer than
their radios connect, so that they part and meet; nothing is lost on the channel.
"""

from random import Random

from msgspec import Struct

from nearcast.core.model.geometry.area import circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.experiments.experiment_result import ExperimentRow
from nearcast.experiments.steam.crowds import CENTRE, RANGE_M, position
from nearcast.simulation.network.radio import Radio, RadioSettings
from nearcast.simulation.radio_node import RadioNode
from nearcast.simulation.virtual_clock import VirtualClock

NEWS = event_type("news", {"value": int}, validity=60.0)
NODES, HALF_M, SECONDS, STEP_S = 6, 600.0, 50.0, 0.1
SHORT_M = RANGE_M - 5.0
"""They move between two steps."""


class Account(Struct):
    """What came of one event."""

    others: int
    owed: int
    got: int
    owed_and_got: int
    longest_periods: float
    """The longest time for which somebody in range of a holder had to wait, in beacon periods."""


def recovery_rows(runs: int, seed: int) -> list[ExperimentRow]:
    """Return what is owed and got, with recovery and without, over so many runs."""
    rows = []
    for recovers in (False, True):
        found = [account(each, recovers=recovers) for each in range(seed, seed + runs)]
        others, owed = sum(each.others for each in found), sum(each.owed for each in found)
        got = sum(each.got for each in found)
        kept = sum(each.owed_and_got for each in found)
        how = "with recovery" if recovers else "without"
        rows += [
            ExperimentRow("Recovery", f"{how}: got the event", None, 100.0 * got / others, "%"),
            ExperimentRow(
                "Recovery", f"{how}: of those who are owed it", None,
                100.0 * kept / owed if owed else 100.0, "%",
                note=f"{owed} of {others} were two beacon periods in range of a holder.",
            ),
        ]  # fmt: skip
        if recovers:
            longest = max(each.longest_periods for each in found)
            rows.append(
                ExperimentRow("Recovery", "longest wait in range of a holder", None, longest,
                              "periods", note="The guarantee is 2.")
            )  # fmt: skip
    return rows


def account(seed: int, *, recovers: bool) -> Account:
    """Run one road, and return who was owed the event and who got it."""
    random = Random(f"{seed}/recovery")
    settings = ProximitySettings(recovers=recovers, type_share=1.0, node_share=1.0)
    clock = VirtualClock(seed)
    names = [f"n{number}" for number in range(NODES)]
    at = {name: random.uniform(-HALF_M, HALF_M) for name in names}
    speed = {name: random.choice((0.0, 20.0, -20.0)) for name in names}
    radio = Radio(clock, lambda name: position((at[name], 0.0)), RadioSettings(contention=False))
    nodes = {name: RadioNode(radio.open(name), clock, settings) for name in names}
    for name, node in nodes.items():
        node.move(position((at[name], 0.0)))
        node.subscribe("news")
    nodes["n0"].announce(NEWS, circle((CENTRE.lat, CENTRE.lon), 5_000.0))
    clock.run(0.2)
    event = nodes["n0"].raise_event("news", {"value": 1})
    period_s = settings.beacon_most_s
    begun: dict[tuple[str, str], float] = {}
    owed: set[str] = set()
    longest_s = 0.0
    for _ in range(int(SECONDS / STEP_S)):
        before = {"n0"} | {name for name in names if _has(nodes[name], event)}
        clock.run(STEP_S)
        for name in names:
            at[name] += speed[name] * STEP_S
            if abs(at[name]) > HALF_M:
                speed[name] = -speed[name]
            nodes[name].move(position((at[name], 0.0)))
        now = clock.now()
        for name in names[1:]:
            for holder in before - {name}:
                if abs(at[name] - at[holder]) > SHORT_M:
                    begun.pop((name, holder), None)
                    continue
                waited_s = now - begun.setdefault((name, holder), now)
                if waited_s >= 2.0 * period_s:
                    owed.add(name)
                if not _has(nodes[name], event):
                    longest_s = max(longest_s, waited_s)
    got = {name for name in names[1:] if _has(nodes[name], event)}
    return Account(NODES - 1, len(owed), len(got), len(owed & got), longest_s / period_s)


def _has(node: RadioNode, event: str) -> bool:
    return any(each.event.id == event for each in node.delivered)
