"""A log that is played again gives the very deliveries that its broker recorded.

The broker runs in virtual time: random lives with crashes, live events, parts, shared groups,
filters that count, restarts. However the log is cut into batches, and whether a player saw what
came before or only applied it, the answers are the same.
"""

import pickle
import random
from collections import Counter

from nearcast.core.language import parse
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import Input, Published, Subscribed
from nearcast.core.model.record import Record
from nearcast.pipeline.decide.player import Player
from nearcast.store import Row, record_row
from nearcast.testing import World, explore
from tests.support.logs.recorded_life import (
    Copy,
    log_of_a_life,
    played,
    played_states,
    recorded,
    recorded_states,
)
from tests.support.logs.recorded_meetings import log_of_meetings


def play_again(world: World) -> None:
    rows = log_of_a_life(world)
    expected = recorded(rows)
    assert expected
    whole = played(Player("broker"), rows)
    assert whole == expected, (whole - expected, expected - whole)

    draw = random.Random(f"{world.seed} cut")
    cuts = sorted(draw.sample(range(1, len(rows)), min(5, len(rows) - 1)))
    player, found = Player("broker"), Counter[Copy]()
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        found += played(player, rows[start:end])
        player = pickle.loads(pickle.dumps(player))
    assert found == expected

    at = draw.choice(cuts)
    late = Player("broker")
    late.apply(rows[:at])
    # What was decided on before the cut may be recorded after it.
    early = Player("broker")
    before = played(early, rows[:at])
    assert played(late, rows[at:]) == expected - before


def test_a_played_log_gives_what_its_broker_recorded() -> None:
    assert explore(play_again, range(500, 525)) == 25


def test_a_played_log_gives_what_its_broker_told_of_relationships_and_areas() -> None:
    def play_meetings_again(world: World) -> None:
        rows = log_of_meetings(world)
        expected = recorded_states(rows)
        assert {each.state for each in expected} == {"near", "apart", "ended", "in", "out"}
        whole = played_states(Player("broker"), rows)
        assert whole == expected, (whole - expected, expected - whole)
        at = random.Random(world.seed).randrange(1, len(rows))
        early, late = Player("broker"), Player("broker")
        late.apply(rows[:at])
        before = played_states(early, rows[:at])
        assert played_states(late, rows[at:]) == expected - before

    assert explore(play_meetings_again, range(4)) == 4


def test_events_that_are_only_applied_take_turns_by_their_attributes() -> None:
    def row(seq: int, value: Input) -> Row:
        return record_row(Record(seq, float(seq), value), "broker")

    wanted = [
        Subscription(f"{node}\0g", node, "a", where=parse("x > 1"), group="g") for node in "cd"
    ]
    event = Published(Event("e", "a", "p", 3.0, attributes={"x": 2}, payload=b'{"x": 2}'))
    rows = [row(seq, Subscribed(each)) for seq, each in enumerate(wanted, 1)]
    rows += [row(3, event), row(4, event)]
    found = [Player("broker") for _ in range(2)]
    found[0].apply(rows[:3])
    assert played(found[1], rows[:3])
    assert played(found[0], rows[3:]) == played(found[1], rows[3:])
