"""Moves that the log knows of and the store does not yet: nothing is missing after an end."""

import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from nearcast.broker.config.settings import Settings
from nearcast.broker.durability.erasure import NodeErasure, forget_in_store
from nearcast.broker.durability.outcome_recorder import BEHIND_S, NODES, NODES_UNTIL
from nearcast.broker.durability.recovery import restore
from nearcast.broker.durability.store_writer import journal_for
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.core.model.context import NodeState
from nearcast.store import Kept, LogSettings, Store, encoded_node
from nearcast.wire.mqtt import MQTT_5, Connect, Decoder, Publish, Subscribe, TopicFilter, encode

NODE_NAMES = ("ann", "ben", "cat", "dan")


class Kit:
    """A hub on a real store, which ends at any time without a word."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.now = 1_000.0
        self.begin()

    def begin(self) -> None:
        self.store = Store(self.data, "b", LogSettings(roll_s=0.0))
        self.hub = Hub(Settings(), journal_for(self.store))
        restore(self.hub, self.store, self.now)
        self.tick()
        self.links = {name: self._joined(name) for name in NODE_NAMES}

    def _joined(self, name: str) -> tuple[Connection, Decoder]:
        connection, decoder = Connection(None), Decoder()
        self.hub.receive(connection, decoder.feed(encode(Connect(name), MQTT_5)), self.now)
        self.tick()
        return connection, decoder

    def send(self, name: str, *packets: Connect | Publish | Subscribe) -> None:
        connection, decoder = self.links[name]
        for packet in packets:
            self.hub.receive(connection, decoder.feed(encode(packet, MQTT_5)), self.now)

    def tick(self) -> list[str]:
        """Tick, and return of which nodes the store was told."""
        entries = self.hub.tick(self.now).entries
        self.store.commit(entries.changes, entries.rows, now=self.now)
        return [
            each.key for each in entries.changes if isinstance(each, Kept) and each.space == NODES
        ]

    def end(self) -> None:
        self.store.abandon()


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    found = Kit(tmp_path)
    yield found
    found.end()


def move(lat: float, lon: float, qos: int = 0, packet_id: int = 0) -> Publish:
    return Publish("$me/position", f"{lat},{lon}".encode(), qos, packet_id=packet_id)


def test_the_store_is_told_of_moves_now_and_then(kit: Kit) -> None:
    told = []
    for step in range(30):
        kit.now += 1.0
        kit.send("ann", move(53.0 + step, 6.0))
        told += kit.tick()
    assert told == ["ann"] * 3
    kit.now += BEHIND_S
    assert kit.tick() == [], "nothing is written where nothing comes"
    kit.send("ann", move(1.0, 2.0))
    assert kit.tick() == ["ann"]


def test_however_long_nobody_moves_little_of_the_log_is_read_again(kit: Kit) -> None:
    for step in range(100):
        kit.now += 1.0
        kit.send("ann", Publish("$me/context", b'{"step":%d}' % step))
        kit.tick()
    kept = (each for each in kit.store.load() if isinstance(each, Kept))
    [until] = [each.value for each in kept if each.space == NODES_UNTIL]
    assert msgspec.msgpack.decode(until) >= kit.store.seq - BEHIND_S


def test_of_many_nodes_the_store_is_told_a_few_at_a_time(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcast.broker.durability.outcome_recorder.MOST_AT_ONCE", 2)
    kit.send("ann", Publish("$me/context", b"{}"))
    kit.tick()
    for name in NODE_NAMES:
        kit.send(name, move(1.0, 2.0))
    kit.tick()
    kit.now += BEHIND_S
    told = []
    for _ in range(2):
        kit.send("ann", Publish("$me/context", b"{}"))
        told.append(kit.tick())
    assert sorted(name for each in told for name in each) == sorted([*NODE_NAMES, "ann"])
    assert max(map(len, told)) == 3
    before = dict(kit.hub.engine.nodes)
    kit.end()
    kit.begin()
    assert kit.hub.engine.nodes == before


def test_what_an_older_release_kept_is_true_to_the_end(kit: Kit) -> None:
    kit.send("ann", move(1.0, 2.0))
    kit.tick()
    # It knows of no rows, and leaves the mark of the newer one as it is.
    state = NodeState("ann", attributes={"mood": 1})
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(encoded_node(state, 0)[1:])[:-1])
    kit.send("ann", Publish("$me/position", b""))
    rows = kit.hub.tick(kit.now).entries.rows
    kit.store.commit([Kept(NODES, "ann", encoded_node(state, 0)[:1] + older)], rows, now=kit.now)
    kit.end()
    kit.begin()
    assert kit.hub.engine.nodes == {"ann": state}


def test_a_move_that_is_acknowledged_is_in_the_store_at_once(kit: Kit) -> None:
    kit.send("ann", move(1.0, 2.0, qos=1, packet_id=5))
    assert kit.tick() == ["ann"]


def test_a_context_and_a_move_in_one_tick(kit: Kit) -> None:
    kit.send("ann", Publish("$me/context", b'{"mood":"glad"}'), move(1.0, 2.0))
    kit.tick()
    before = dict(kit.hub.engine.nodes)
    kit.end()
    kit.begin()
    assert kit.hub.engine.nodes == before


@pytest.mark.parametrize("seed", range(25))
def test_whenever_it_ends_it_goes_on_with_what_was_known(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    kit = Kit(tmp_path)
    for _ in range(60):
        for _ in range(chance.randrange(4)):
            act(kit, chance)
        kit.now += chance.choice([0.0, 0.1, 1.0, 4.0, 400.0])
        if chance.random() < 0.1:
            kit.now -= 20.0  # Somebody sets the clock.
        kit.tick()
        if chance.random() < 0.3:
            kit.store.roll(kit.now + 1.0)
        if chance.random() < 0.15:
            before = dict(kit.hub.engine.nodes)
            kit.end()
            kit.begin()
            assert kit.hub.engine.nodes == before
    kit.end()


def act(kit: Kit, chance: random.Random) -> None:
    name = chance.choice(NODE_NAMES)
    what = chance.random()
    where = move(chance.uniform(-80, 80), chance.uniform(-170, 170))
    if what < 0.6:
        kit.send(name, where)
    elif what < 0.7:
        kit.send(name, move(1.0, chance.random(), 1, chance.randrange(1, 1_000)))
    elif what < 0.8:
        kit.send(name, Publish("$me/context", b'{"mood":%d}' % chance.randrange(3)))
    elif what < 0.85:
        kit.send(name, Publish("$me/position", b""))
    elif what < 0.9:
        # Whoever watches an area has every move looked at.
        kit.send(name, Publish(f"$area/{name}", b'{"area":"circle:1,1,5000000"}'))
    elif what < 0.95:
        kit.send(name, where, Publish("$me/context", b'{"mood":7}'), where)
    else:
        forget(kit, name)
        kit.tick()
        kit.links[name] = kit._joined(name)


def forget(kit: Kit, name: str) -> None:
    erasure = NodeErasure(kit.hub, name, 1)
    while erasure.work(kit.now):
        kit.tick()
    erasure.end()


def test_who_is_forgotten_does_not_come_back_out_of_the_log(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    kit.send("ann", move(1.0, 2.0))
    kit.send("ben", move(3.0, 4.0))
    kit.tick()
    kit.end()
    store = Store(tmp_path, "b")
    forget_in_store(store, Settings(), "ann", kit.now)
    store.abandon()
    kit.begin()
    assert set(kit.hub.engine.nodes) == {"ben"}
    kit.end()


def test_subscribers_are_met_where_they_moved_to(kit: Kit) -> None:
    kit.send("ann", move(1.0, 2.0))
    kit.tick()
    kit.end()
    kit.begin()
    kit.send("ben", move(1.0, 2.0), Subscribe(1, (TopicFilter("news"),)))
    kit.tick()
    found = kit.hub.engine.nodes["ann"].position
    assert found is not None
    assert (found.lat, found.lon) == (1.0, 2.0)


def test_moves_of_the_very_first_tick_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcast.broker.durability.outcome_recorder.MOST_AT_ONCE", 1)
    monkeypatch.setattr(Kit, "_joined", lambda self, name: (Connection(None), Decoder()))
    kit = Kit(tmp_path)
    for name in NODE_NAMES:
        kit.send(name, Connect(name), move(1.0, 2.0))
    kit.tick()
    before = dict(kit.hub.engine.nodes)
    assert len(before) == len(NODE_NAMES)
    kit.end()
    kit.begin()
    assert kit.hub.engine.nodes == before
    kit.end()


def test_who_comes_back_after_being_forgotten_is_known_again(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NODE_NAMES:
        kit.send(name, move(1.0, 2.0))
    kit.tick()
    monkeypatch.setattr("nearcast.broker.durability.outcome_recorder.MOST_AT_ONCE", 1)
    for name in NODE_NAMES:
        kit.send(name, move(3.0, 4.0))
    kit.tick()
    forget(kit, "ann")
    kit.tick()
    kit.links["ann"] = (Connection(None), Decoder())
    kit.send("ann", Connect("ann"), Publish("$me/context", b'{"mood":1}'))
    kit.tick()
    before = dict(kit.hub.engine.nodes)
    kit.end()
    kit.begin()
    assert kit.hub.engine.nodes == before
