"""Whatever clients do, usage is what there is: after each tick, a restart and a clean-up."""

import random
from pathlib import Path

import msgspec
import pytest

from nearcast.broker.config.settings import Limits, Settings
from nearcast.broker.durability.erasure import NodeErasure
from nearcast.broker.durability.recovery import restore
from nearcast.broker.durability.store_writer import journal_for
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.quota import Resource
from nearcast.store import Store
from nearcast.wire.mqtt import (
    Connect,
    Disconnect,
    Packet,
    Properties,
    Publish,
    Subscribe,
    TopicFilter,
    Unsubscribe,
    Will,
)

NAMES = ("ann", "ann~2", "ben", "cat")
POLYGON = '{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}'
AREAS = ("circle:1,2,300", "circle:me,50", "POLYGON((0 0, 1 0, 1 1, 0 0))")
LIMITS = Limits(
    subscriptions=6, all_subscriptions=15, filter_bytes=600, all_filter_bytes=1_000, vertices=9,
    all_vertices=20, retained=8, retained_bytes=20_000, announcements=2, all_announcements=4,
    areas=2, all_areas=3, relationships=2, all_relationships=3, relationship_members=5,
    all_relationship_members=7, places=3, place_vertices=12, nodes=3, all_context_bytes=80,
    all_will_bytes=1_500, all_packet_ids=6, all_queued_bytes=5_000, sessions=3, user_share=0.9,
)  # fmt: skip
"""So small that everything meets its bound."""


class Life:
    """A hub with a store, and clients that do anything."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.chance = random.Random(seed)
        self.now = 1_000.0
        self.connections: dict[str, Connection] = {}
        self.packet_id = 0
        self.start()

    def start(self) -> None:
        self.store = Store(self.directory, "local")
        self.hub = Hub(Settings(limits=LIMITS), journal_for(self.store))
        restore(self.hub, self.store, self.now)
        self.connections = {}
        self.hub.begin(self.now)
        self.tick()

    def restart(self) -> None:
        self.tick()
        for session in self.hub.sessions.values():
            if session.connection is not None:
                self.hub.lost(session.connection)
        self.tick()
        before = self.used()
        self.store.close()
        self.start()
        assert self.used() == before

    def used(self) -> dict[Resource, list[tuple[str, int]]]:
        """What each user has in use of everything."""
        users = list(self.hub.state.quotas.users())
        return {
            resource: sorted((u.name, u.used[resource]) for u in users if u.used[resource])
            for resource in Resource
        }

    def tick(self) -> None:
        while True:
            batch = self.hub.tick(self.now)
            self.store.commit(batch.entries.changes, batch.entries.rows, now=self.now)
            for write in batch.writes:
                self.hub.written(write)
                if write.closes:
                    self.hub.lost(write.connection)
            if not batch.writes and self.hub.next_timer(self.now) != self.now:
                break
        self.hub.validate_state()
        in_all = self.hub.state.quotas.in_all
        for resource in Resource:
            # Sessions that end with their connection are bounded by the connections.
            if resource is not Resource.SESSIONS:
                assert in_all.has_room(resource, 0), f"too many {resource.label}"

    def send(self, name: str, *packets: Packet) -> None:
        self.hub.receive(self.connections[name], packets, self.now)

    def connect(self, name: str, clean: bool, expiry: int, will: bool = False) -> None:
        connection = self.connections[name] = Connection(since=self.now)
        said = Will("w", bytes(self.chance.randrange(500)), 1) if will else None
        properties = Properties(session_expiry_interval=expiry)
        packet = Connect(name, 5, clean, 0, said, properties=properties)
        self.hub.receive(connection, [packet], self.now)

    def act(self) -> None:
        """Let a client do one thing."""
        chance, name = self.chance, self.chance.choice(NAMES)
        connection = self.connections.get(name)
        if connection is None or connection.session is None or connection.closing:
            will = chance.random() < 0.5
            self.connect(name, chance.random() < 0.3, chance.choice((0, 100, 1_000_000)), will)
            return
        number, self.packet_id = chance.randrange(4), self.packet_id % 60_000 + 1
        words = Properties(
            user_properties=(
                ("nc-where", f"a > {number} AND b = 'x'"),
                ("nc-from", chance.choice(AREAS)),
            )
        )
        area = chance.choice(AREAS)
        wanted = (TopicFilter(f"t/{number}", chance.randrange(3)),)
        packets: list[Packet] = [
            Subscribe(self.packet_id, wanted),
            Subscribe(self.packet_id, wanted, words),
            Unsubscribe(self.packet_id, (f"t/{number}",)),
            self.publish(f"t/{number}", bytes(chance.randrange(300)), retain=True),
            self.publish(f"t/{number}", b"", retain=True),
            self.publish(f"t/{number}", b'{"a": 9, "b": "x"}'),
            self.publish(f"$area/{number}", b'{"area": "%s"}' % area.encode()),
            self.publish(f"$area/{number}", b""),
            self.publish(f"$relate/{number}", self.relationship()),
            self.publish(f"$relate/{number}", b""),
            self.publish(f"$place/k/{number}", POLYGON.encode()),
            self.publish(f"$place/k/{number}", b""),
            self.publish(f"$me/announcements/t/{number}", b'{"to": "%s"}' % area.encode()),
            self.publish(f"$me/announcements/t/{number}", b""),
            self.publish("$me/position", b"1,2"),
            self.publish("$me/context", b'{"a": "%s"}' % (b"x" * chance.randrange(40))),
            Disconnect(),
        ]
        self.send(name, chance.choice(packets))
        if chance.random() < 0.05:
            self.hub.lost(connection)

    def relationship(self) -> bytes:
        members = ("me", "ben", "cat", "dee")[: self.chance.randrange(2, 5)]
        return msgspec.json.encode({"members": members, "within": 5})

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> Publish:
        qos = self.chance.randrange(3)
        return Publish(topic, payload, qos, retain, packet_id=self.packet_id if qos else 0)

    def withdraw_everything(self) -> None:
        self.tick()
        self.now += 10_000_000.0
        for node in ("ann", "ben", "cat"):
            erasure = NodeErasure(self.hub, node)
            while erasure.work(self.now):
                self.hub.tick(self.now)
            erasure.end()
            self.tick()


@pytest.mark.parametrize("seed", range(6))
def test_usage_is_what_there_is_whatever_clients_do(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    for step in range(500):
        life.act()
        if life.chance.random() < 0.4:
            life.now += life.chance.choice((0.1, 5.0, 700.0))
            life.hub.sweep(life.now)
            life.tick()
        if step % 200 == 199:
            life.restart()
    quotas = life.hub.state.quotas
    assert quotas.refusals > 0
    life.withdraw_everything()
    assert quotas.in_all.is_empty, quotas.in_all.used
    assert quotas.broker.is_empty
    assert list(quotas.users()) == []
    life.store.close()
