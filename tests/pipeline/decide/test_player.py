"""A log that is played again gives the very deliveries that its broker recorded.

The broker runs in virtual time: random lives with crashes, live events, parts, shared groups,
filters that count, restarts. However the log is cut into batches, and whether a player saw what
came before or only applied it, the answers are the same.
"""

import pickle
import random
from collections import Counter
from collections.abc import Iterable

from nearcast.broker.config.settings import RecordSection, Settings, SituationSection
from nearcast.pipeline.decide.player import Player
from nearcast.store import DELIVERY, Gap, Recipient, Row, recipients_of, rows_of
from nearcast.testing import World, explore
from tests.situation.test_random_lives import Virtual
from tests.support.plain.random_life import RandomLife

RECORDED = Settings(
    record=RecordSection(deliveries=True), situation=SituationSection(position_ttl_s=1e6)
)
Copy = tuple[str | None, str | None, str, tuple[str, ...], int, bool]


def copies(
    publisher: str | None, name: str | None, recipients: Iterable[Recipient]
) -> Iterable[Copy]:
    for session, subscriptions, priority, replayed in recipients:
        yield publisher, name, session, tuple(sorted(subscriptions)), priority, replayed


def recorded(rows: Iterable[Row]) -> Counter[Copy]:
    found: Counter[Copy] = Counter()
    for row in rows:
        if row.kind == DELIVERY:
            found.update(copies(row.publisher, row.event_id, recipients_of(row)))
    return found


def played(player: Player, rows: Iterable[Row]) -> Counter[Copy]:
    found: Counter[Copy] = Counter()
    for part in player.decide(rows):
        assert not part.unusable, part.unusable
        for sent in part.sent:
            found.update(copies(sent.event.publisher, sent.event.id, sent.recipients))
    return found


def log_of_a_life(world: World, steps: int = 60) -> list[Row]:
    driver = Virtual(world, RECORDED)
    life = RandomLife(world.seed, driver, restarts=True)
    life.live(steps)
    world.settle()
    rows: list[Row] = []
    for part in world.brokers["broker"].disk.store.log.read():
        assert not isinstance(part, Gap)
        rows += rows_of(part)
    return rows


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
