"""A run of the city: its inputs through the engine, second by second, and the results.

Keeps data for display: recent deliveries, positions, and reasons why an event was not delivered.
"""

from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from nearcast.core.engine.engine import Engine, Outcome
from nearcast.core.model.event import Delivery, Event
from nearcast.core.model.inputs import Input, Published
from nearcast.core.model.subject import subject_matches
from nearcast.simulation.movement.city_life import CityLife

REMEMBERED = 100
"""The number of happenings kept; older ones are dropped."""


class Happening(Struct, frozen=True):
    """An event and its deliveries of one second."""

    time_s: int
    event: Event
    copies: tuple[Delivery, ...]

    @property
    def later(self) -> bool:
        """True if the nodes came into reach after the event."""
        return self.event.time < self.time_s


class Missed(Struct, frozen=True):
    """A node with a matching subject that did not get an event, and the reason."""

    event: Event
    node: str
    why: str


class CityRun:
    """A city, the engine that decides for it, and counts."""

    def __init__(self, life: CityLife) -> None:
        self.life = life
        self.engine = Engine()
        self.time_s = 0
        self.events = 0
        self.unheard = 0
        """Events that had no recipient when they were published."""
        self.deliveries = 0
        self.met_later = 0
        self.by_priority: dict[int, int] = {}
        self.happenings: deque[Happening] = deque(maxlen=REMEMBERED)
        self.recent: deque[Event] = deque(maxlen=REMEMBERED)
        self.live: dict[str, Event] = {}
        """Live events by key."""
        self.missed: Missed | None = None
        self.step(list(life.arrivals()))

    def prepare(self) -> list[Input]:
        """Advance by a second; return its inputs."""
        self.time_s += 1
        return list(self.life.second(self.time_s))

    def step(self, inputs: Sequence[Input]) -> Outcome:
        """Let the engine decide, and record the results."""
        outcome = self.engine.step(inputs, self.time_s)
        assert not outcome.refusals, outcome.refusals
        copies: dict[tuple[str, str], list[Delivery]] = {}
        for delivery in outcome.deliveries:
            copies.setdefault((delivery.event.publisher, delivery.event.id), []).append(delivery)
        for found in copies.values():
            self._count(Happening(self.time_s, found[0].event, tuple(found)))
        for record in outcome.records:
            if isinstance(record.input, Published):
                event = record.input.event
                got = copies.get((event.publisher, event.id), [])
                self._note(event, {delivery.node for delivery in got})
        for change in outcome.live_changes:
            if change.event is not None:
                self.live[change.key] = change.event
            else:
                self.live.pop(change.key, None)
        return outcome

    def statistics(self) -> dict[str, int]:
        """Return counts of the run, and of the engine's state."""
        kept = self.engine.matcher.statistics()
        return {
            "seconds": self.time_s,
            "nodes": len(self.engine.nodes),
            "subscriptions": len(self.engine.subscriptions),
            "events": self.events,
            "heard_by_nobody": self.unheard,
            "deliveries": self.deliveries,
            "met_later": self.met_later,
            **{
                f"priority_{number}": self.by_priority[number]
                for number in sorted(self.by_priority)
            },
            "live_events": len(self.live),
            "inputs": self.engine.seq,
            **{name: kept[name] for name in ("rules", "atoms", "cells", "bytes")},
        }

    def _count(self, happening: Happening) -> None:
        self.happenings.append(happening)
        self.deliveries += len(happening.copies)
        self.met_later += len(happening.copies) if happening.later else 0
        for copy in happening.copies:
            self.by_priority[copy.priority] = self.by_priority.get(copy.priority, 0) + 1

    def _note(self, event: Event, got: set[str]) -> None:
        self.events += 1
        self.unheard += not got
        self.recent.append(event)
        # A different candidate each time, instead of always the same few.
        candidates = [
            subscription
            for subscription in self.engine.subscriptions.values()
            if subscription.node not in got and subject_matches(subscription.subject, event.subject)
        ]
        if not candidates:
            return
        candidate = candidates[self.events % len(candidates)]
        for verdict in self.engine.explain(event, candidate.node):
            if verdict.subscription == candidate.id and not verdict.passed:
                why = verdict.steps[-1].why
                if verdict.steps[-1].step == "where" and candidate.where is not None:
                    why = f"{why}: {candidate.where.to_text()}"
                self.missed = Missed(event, candidate.node, why)
