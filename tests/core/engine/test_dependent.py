"""What depends on contexts, matches and time is registered with the engine, and is told."""

from collections.abc import Sequence

from nearcast.core.engine.dependent import EngineDependent, NodeUpdate
from nearcast.core.engine.engine import Engine, EngineSettings
from nearcast.core.engine.outcome import AreaNotice, EngineStep, Notice
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import circle
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import AreaWatched, ContextPatched, Forgot, Input, Moved, Published
from nearcast.core.model.record import Record
from nearcast.pipeline.decide.player import Player
from nearcast.store import record_row

HERE, THERE = Position(53.35, -6.26), Position(53.36, -6.26)


class Witness(EngineDependent):
    """Notes what it is told, and asks to be woken once."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.due: float | None = 50.0

    @property
    def ignores_moves(self) -> bool:
        return False

    def node_changed(self, update: NodeUpdate, step: EngineStep) -> None:
        self.told.append((update.after.node, update.after.position, update.expired, step.now))

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        self.told.append(("forgotten", node))

    def events_made(
        self, events: Sequence[Event], times: Sequence[float], step: EngineStep
    ) -> None:
        self.told.append(("events", *(event.id for event in events)))

    def expire(self, step: EngineStep) -> None:
        if self.due is not None and self.due <= step.now:
            self.told.append(("woken", step.now))
            self.due = None

    def next_timer(self) -> float | None:
        return self.due


def test_who_is_registered_is_told_of_moves_matches_and_time() -> None:
    engine, witness = Engine(EngineSettings(position_ttl_s=100.0)), Witness()
    engine.register(witness)
    assert engine.next_timer() == 50.0
    event = Event("e", "a", "ann", 1.0)
    moves: list[Input] = [Moved("ann", HERE), Moved("ann", THERE)]
    engine.step([*moves, ContextPatched("bob", {"x": 1}), Published(event)], 1.0)
    # Moves do not wait for others while somebody wants to know of each.
    assert witness.told == [
        ("ann", HERE, False, 1.0),
        ("ann", THERE, False, 1.0),
        ("bob", None, False, 1.0),
        ("events", "e"),
    ]
    witness.told.clear()
    assert engine.step([], 60.0).timer == 101.0
    engine.step([], 101.0)
    engine.step([Forgot("ann")], 102.0)
    assert witness.told == [("woken", 60.0), ("ann", None, True, 101.0), ("forgotten", "ann")]


def test_notices_of_areas_are_in_the_outcome_wherever_it_is_decided() -> None:
    engine, player = Engine(), Player("broker")
    inputs: list[Input] = [
        AreaWatched("centre", "ann", circle(HERE, 100.0)),
        Moved("bob", THERE),
        Moved("bob", HERE),
    ]
    told: list[Notice] = []
    records: list[Record] = []
    for at, each in enumerate(inputs):
        outcome = engine.step([each], float(at))
        told += outcome.notices
        records += outcome.records
    assert told == [AreaNotice("centre", "bob", True, 2.0)]
    rows = [record_row(record, "broker") for record in records]
    assert [notice for part in player.decide(rows) for notice in part.notices] == told
