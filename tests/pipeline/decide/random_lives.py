"""Random lives as rows of a log, made by an engine step by step, and cut at random."""

import random
from collections.abc import Iterator

import pyarrow as pa
from msgspec.structs import replace

from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.engine.engine import Engine, EngineSettings
from nearcast.core.language import parse
from nearcast.core.model import Box
from nearcast.core.model.event import Announcement, Event, Relevance, Subscription
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.forms.area_text import parse_area
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Announced,
    Classified,
    ContextPatched,
    Forgot,
    Input,
    Left,
    LiveForgotten,
    Moved,
    NodeExpired,
    PlaceDefined,
    PolicySet,
    Presence,
    Published,
    RelationshipDefined,
    RelationshipEnded,
    RelationshipSettled,
    RelationshipSilenced,
    Restarted,
    RulesSet,
    SightSet,
    SilenceTold,
    Subscribed,
    Unannounced,
    Unsubscribed,
)
from nearcast.core.model.record import Record
from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.core.model.visibility import SEE_IDENTITY, SEE_NOTHING
from nearcast.store import DELIVERY, Row, batch_of, record_row
from nearcast.wire.mqtt import message_expiry

NODES = ("a", "b", "c", "d", "é")
SUBJECTS = ("s", "t", "s/u")
MATRICES = (None, '{"rows": [[-1, -1, 1], [-1, 2, 1], [1, 1, 1]]}')
WHERE = (
    None, None, "x > 3", "kind = 'bus'", "me.role = 'nurse'", "kind LIKE 'b%'", "far.away = 1",
    "distance(me, event) < 1500",
)  # fmt: skip
CONTENT_TYPE = b"\x03\x00\x04text"
HEADERS = (CONTENT_TYPE, message_expiry(30), message_expiry(7) + CONTENT_TYPE)
COUNTING = ("count('s', 'x > 2', 3000) >= 1", "count('t', 'x > 1') < 2")
AREAS = ("circle:me,2000", "circle:a,1500", "circle:53.35,-6.26,1000", "place:city/Dublin")
PAYLOADS = (
    b"", b"not json", b"7", b"[1]", b'{"x": 4}', b'{"x": 4, "x": 1}', b'{"x": 2.5, "kind": "bus"}',
    b'{"x": true, "kind": null}', b'{"far": {"away": 1}}', b'{"x": 1' + b"0" * 400 + b"}",
)  # fmt: skip


class Life:
    """A log from one seed."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._engine = Engine(EngineSettings(position_ttl_s=40.0, recent_s=30.0, known_ids_most=4))
        self._now = 1_000.0
        self._made = 0
        self._counts = self._draw.random() < 0.4
        self._shares = self._draw.random() < 0.5
        self.rows: list[Row] = []

    def live(self, steps: int) -> list[Row]:
        draw = self._draw
        for _ in range(steps):
            if draw.random() < 0.4:
                for _ in range(draw.randrange(1, 25)):
                    self._happen(Published(self._plain()))
            else:
                self._happen(self._other())
        return self.rows

    def _happen(self, value: Input) -> None:
        draw = self._draw
        if draw.random() < 0.5:
            self._now += draw.choice((0.001, 0.5, 3.0, 3.0, 50.0, -2.0))
        outcome = self._engine.step([value], self._now)
        for record in outcome.records:
            self._record(record)

    def _record(self, record: Record) -> None:
        draw = self._draw
        headers = draw.choice(HEADERS) if draw.random() < 0.1 else None
        properties = (("k", "v"), ("k", "w")) if headers is None and draw.random() < 0.2 else ()
        row = record_row(replace(record, seq=len(self.rows) + 1), "broker")
        if row.kind == "event":
            row = replace(row, properties=properties, headers=headers)
        if draw.random() < 0.02:
            row = replace(row, data="{", kind=draw.choice((row.kind, DELIVERY)))
        elif draw.random() < 0.02 and row.kind == "event":
            row = replace(row, lat=None)
        self.rows.append(row)

    def _plain(self) -> Event:
        draw = self._draw
        self._made += 1
        number = self._made if draw.random() < 0.9 else max(0, self._made - 9)
        at = self._place() if draw.random() < 0.3 else None
        return Event(
            f"e{number}", draw.choice(SUBJECTS), draw.choice(NODES), self._now, position=at,
            payload=draw.choice(PAYLOADS), qos=draw.choice((0, 0, 1, 2)),
        )  # fmt: skip

    def _special(self) -> Event:
        draw = self._draw
        event = replace(
            self._plain(), valid_s=draw.choice((None, 5.0, 20.0, 0.0)), to=self._area(0.4),
            object=draw.choice((None, "o")), retain=draw.random() < 0.2,
            at_given=draw.random() < 0.2, session=draw.choice(("", "a~1")),
        )  # fmt: skip
        return event if event.position is not None else replace(event, at_given=False)

    def _place(self) -> Position:
        return Position(53.34 + self._draw.randrange(4) * 0.01, -6.26)

    def _area(self, chance: float) -> Area | None:
        return parse_area(self._draw.choice(AREAS)) if self._draw.random() < chance else None

    def _wish(self) -> Subscription:
        draw = self._draw
        node = draw.choice(NODES)
        where = draw.choice((*WHERE, *(COUNTING if self._counts else ())))
        relevance = None
        if draw.random() < 0.3:
            atoms = len(FormFunction(None if where is None else parse(where)).atoms)
            relevance = Relevance((*(draw.randrange(4) for _ in range(atoms - 1)), 2))
        return Subscription(
            f"w{draw.randrange(14)}", node, draw.choice((*SUBJECTS, "#", "s/#", "+")),
            None if where is None else parse(where), self._area(0.3), relevance,
            qos=draw.randrange(2), no_local=draw.random() < 0.3,
            session=draw.choice(("", f"{node}~1")),
            group="g" if self._shares and draw.random() < 0.15 else None,
        )  # fmt: skip

    def _relationship(self, node: str) -> RelationshipDefined:
        draw = self._draw
        members = tuple(draw.sample(NODES, draw.randrange(2, 5)))
        kind, size = draw.randrange(3), draw.choice((0.0, 500.0, 1_500.0))
        return RelationshipDefined(
            draw.choice("rs"), node, members, draw.randrange(2, len(members) + 1),
            size if kind == 0 else None, size if kind == 1 else None,
            (size,) * len(members) if kind == 2 else (),
            where=None if draw.random() < 0.7 else parse("role = 'nurse'"),
        )  # fmt: skip

    def _other(self) -> Input:
        draw = self._draw
        node, other = draw.choice(NODES), draw.choice(NODES)
        part = draw.choice(("", f"{node}~1"))
        city = Box(53.3, -6.3, 53.355, -6.2)
        whom = draw.choice((NodeCondition(nodes=(other,)), NodeCondition(inside=city)))
        hidden = SightRule(other=whom, see=draw.choice((SEE_NOTHING, SEE_IDENTITY)))
        sessions = tuple(name for each in NODES for name in (each, f"{each}~1"))
        made: tuple[tuple[Input, int], ...] = (
            (Published(self._special()), 6),
            (Subscribed(self._wish()), 12),
            (Unsubscribed(f"w{draw.randrange(14)}"), 4),
            (Moved(node, self._place() if draw.random() < 0.9 else None), 8),
            (ContextPatched(node, {"role": draw.choice(("nurse", "cook"))}), 2),
            (Classified(node, "network", draw.choice((None, 1, 2, 3)), part), 4),
            (PolicySet("matrix", draw.choice(("default", "cook")), draw.choice(MATRICES)), 1),
            (Announced(Announcement(node, draw.choice(SUBJECTS), parse_area(AREAS[2]))), 1),
            (Unannounced(node, draw.choice(SUBJECTS)), 1),
            (Presence(node, draw.random() < 0.5, draw.choice(("", f"{node}~1"))), 3),
            (Left(node, draw.choice(("", f"{node}~1"))), 1),
            (LiveForgotten(node, draw.randrange(1, 4)), 1),
            (Forgot(node), 1),
            (NodeExpired(node), 1),
            (self._relationship(node), 3),
            (RelationshipEnded(draw.choice("rs")), 1),
            (RelationshipSilenced(draw.choice("rs"), draw.random() < 0.7), 1),
            (RelationshipSettled(draw.choice("rs")), 2),
            (SilenceTold(node, draw.random() < 0.7, part), 2),
            (PlaceDefined("city", "Dublin", draw.choice((city, city, None))), 2),
            (SightSet(node, other, draw.choice((None, SEE_NOTHING))), 1),
            (RulesSet((hidden,) if draw.random() < 0.5 else ()), 1),
            (
                Restarted(
                    tuple(name for name in sessions if draw.random() < 0.9), 40.0, 30.0,
                    (("s/#", True),) if draw.random() < 0.5 else (), draw.random() < 0.5,
                    replays_go_on=draw.random() < 0.5,
                ),
                1,
            ),
        )  # fmt: skip
        return draw.choices([each for each, _ in made], [weight for _, weight in made])[0]


def cut(draw: random.Random, rows: list[Row]) -> Iterator[pa.RecordBatch]:
    """The rows as batches of any size, some of them slices of others."""
    while rows:
        many = draw.randrange(1, 60)
        batch = batch_of(rows[:many])
        middle = draw.randrange(many)
        yield from (part for part in (batch[:middle], batch[middle:]) if part.num_rows)
        rows = rows[many:]
