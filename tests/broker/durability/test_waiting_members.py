"""Who leaves a pool of what waits is written down alone, and is gone after a restart, too."""

import json
from pathlib import Path

from nearcast.broker.durability.journal import Journal
from nearcast.broker.durability.waiting_recorder import POOLS, WAITING, WaitingRecorder
from nearcast.core.engine.books.gathering_book import (
    PoolChange,
    PoolEnded,
    PoolLeft,
    PoolPut,
)
from nearcast.core.engine.engine import Engine
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import Published, Subscribed, Unsubscribed
from nearcast.store import Forgotten, Kept
from nearcast.wire.mqtt import UnsubAck, Unsubscribe
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker

MANY = 300
LASTING = 999_999


def lasting(broker: RunningBroker, name: str) -> Talker:
    return Talker(broker, name, clean=False, expiry=LASTING)


def leave(talker: Talker) -> None:
    talker.client.send(Unsubscribe(talker.client.next_id(), ("road",)))
    talker.client.wait_for(UnsubAck)


def counts(talker: Talker) -> list[int]:
    return [json.loads(each)["count"] for each in talker.payloads()]


def test_whoever_left_and_came_back_gets_nothing_from_before_a_restart(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    names = [fresh("reader") for _ in range(5)]
    for name in names:
        lasting(broker, name).wants("road", aggregate="volume 3")
    writer = Talker(broker)
    writer.says("road", b"{}")
    back = lasting(broker, names[0])
    leave(back)
    back.wants("road", aggregate="volume 3")
    broker.stop()
    broker = RunningBroker(data=tmp_path)
    writer = Talker(broker)
    for _ in range(2):
        writer.says("road", b"{}")
    assert counts(lasting(broker, names[1])) == [3]
    assert counts(lasting(broker, names[0])) == []
    writer.says("road", b"{}")
    assert counts(lasting(broker, names[0])) == [3]
    broker.stop()


def test_nothing_has_the_name_of_somebody_who_was_forgotten(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    for name in ("reader-1", "reader-2", "reader-3", "the-forgotten-one"):
        lasting(broker, name).wants("road", aggregate="volume 3")
    Talker(broker).says("road", b"{}")
    leave(lasting(broker, "the-forgotten-one"))
    broker.run(broker.server.forget("the-forgotten-one"))
    broker.stop()
    found = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and b"the-forgotten-one" in path.read_bytes()
    ]
    assert found == []


def changes_while_all_leave() -> list[PoolChange]:
    engine, found = Engine(), list[PoolChange]()
    ids = [f"c{number}\0road" for number in range(MANY)]
    subscribed = [
        Subscribed(Subscription(id_, id_[:-5], "road", qos=1, aggregate="volume 9")) for id_ in ids
    ]
    engine.step(subscribed, 1.0)
    found += engine.step([Published(Event("e", "road", "p", 2.0, qos=1))], 2.0).waiting_changes
    for id_ in ids[:-1]:
        found += engine.step([Unsubscribed(id_)], 3.0).waiting_changes
    return found


def test_what_is_written_while_everybody_leaves_is_in_proportion_to_how_many_they_are() -> None:
    members = [each for each in changes_while_all_leave() if isinstance(each, PoolPut | PoolLeft)]
    assert MANY <= sum(len(each.subscriptions) for each in members) <= 5 * MANY


def test_the_store_has_those_who_stayed_and_nothing_once_the_pool_is_gone() -> None:
    recorder, journal = WaitingRecorder(), Journal(keeps=True)
    recorder.record(changes_while_all_leave(), journal)
    stored = applied(journal, {})
    again = WaitingRecorder()
    for (space, key), value in stored.items():
        again.restore(space, value, key)
    (pool,) = again.take_restored()
    assert pool.subscriptions == (f"c{MANY - 1}\0road",)
    assert [each.event.id for each in pool.events] == ["e"]
    journal = Journal(keeps=True)
    again.store_anew([pool], journal)
    stored = applied(journal, stored)
    assert {space for space, _ in stored} == {POOLS, WAITING}
    again.record([PoolEnded(pool.id)], journal)
    assert applied(journal, stored) == {}


def applied(journal: Journal, stored: dict[tuple[str, str], bytes]) -> dict[tuple[str, str], bytes]:
    found = dict(stored)
    for change in journal.changes:
        if isinstance(change, Kept):
            found[change.space, change.key] = change.value
        elif isinstance(change, Forgotten):
            found.pop((change.space, change.key), None)
    return found
