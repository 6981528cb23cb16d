"""The log of a random life, what it recorded, and what playing it gives."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from nearcast.broker.config.settings import RecordSection, Settings, SituationSection
from nearcast.core.engine.updates.recorded_notices import recorded_notices
from nearcast.core.model.notice_record import NoticeRecord
from nearcast.pipeline.decide.player import Player
from nearcast.store import DELIVERY, NOTICE, Gap, Recipient, Row, recipients_of, rows_of
from nearcast.testing import World
from tests.support.plain.random_life import RandomLife
from tests.support.plain.virtual_driver import Virtual

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
            for each in sent.deliveries:
                to = [(each.owner, each.subscriptions, each.priority, each.replayed)]
                found.update(copies(each.event.publisher, each.event.id, to))
    return found


def recorded_states(rows: Iterable[Row]) -> Counter[NoticeRecord]:
    """What the broker told of relationships and areas."""
    found: Counter[NoticeRecord] = Counter()
    for row in rows:
        if row.kind == NOTICE:
            assert row.subject is not None
            assert row.time is not None
            state = msgspec.json.decode(row.data, type=dict[str, object])["state"]
            found[NoticeRecord(row.subject, str(state), row.node, row.time)] += 1
    return found


def played_states(player: Player, rows: Iterable[Row]) -> Counter[NoticeRecord]:
    """What a player tells of them."""
    told = (each for part in player.decide(rows) for each, _ in recorded_notices(part.notices))
    return Counter(told)


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
