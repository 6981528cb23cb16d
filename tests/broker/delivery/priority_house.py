"""A hub, on a real store if one is given, into which deliveries of any priority are put."""

import os
import signal
import sys
from pathlib import Path

import msgspec

from nearcast.broker.config.settings import Limits, Settings
from nearcast.broker.durability.recovery import restore
from nearcast.broker.durability.store_writer import journal_for
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.session import Session
from nearcast.core.model.event import Event
from nearcast.store import Store
from nearcast.wire.mqtt import (
    MQTT_5,
    Connect,
    Decoder,
    Packet,
    Properties,
    Publish,
    Sender,
    Subscribe,
    TopicFilter,
)

QUEUED = 6


class House:
    """A broker's hub, and clients by name."""

    def __init__(self, data: Path | None = None, queued: int = QUEUED) -> None:
        self.now = 1_000.0
        self.store = None if data is None else Store(data, "b")
        journal = None if self.store is None else journal_for(self.store)
        self.hub = Hub(Settings(limits=Limits(queued=queued)), journal)
        if self.store is not None:
            restore(self.hub, self.store, self.now)
        self.connections: dict[str, Connection] = {}
        self.written: dict[str, list[Publish]] = {}
        self.tick()

    def session(self, name: str) -> Session:
        return self.hub.sessions[name]

    def connect(self, name: str, clean: bool = True) -> None:
        connection = self.connections[name] = Connection()
        properties = Properties(session_expiry_interval=600)
        self.send(name, Connect(name, MQTT_5, clean_start=clean, properties=properties))
        assert connection.session is not None

    def subscribe(self, name: str, topic: str, qos: int = 1, **texts: str) -> None:
        pairs = tuple((f"nc-{key}", text) for key, text in texts.items())
        properties = Properties(user_properties=pairs)
        self.send(name, Subscribe(1, (TopicFilter(topic, qos),), properties))

    def leave(self, name: str) -> None:
        self.hub.lost(self.connections.pop(name))
        self.tick()

    def send(self, name: str, packet: Packet) -> None:
        self.hub.receive(self.connections[name], [packet], self.now)
        self.tick()

    def tick(self) -> None:
        """Tick, commit, and note what is written."""
        batch = self.hub.tick(self.now)
        if self.store is not None:
            self.store.commit(batch.entries.changes, batch.entries.rows, now=self.now)
        self.hub.validate_state()
        for write in batch.writes:
            for name, connection in self.connections.items():
                if connection is write.connection:
                    found = Decoder(sender=Sender.SERVER, version=MQTT_5).feed(write.data)
                    got = [each for each in found if isinstance(each, Publish)]
                    self.written.setdefault(name, []).extend(got)

    def sweep(self) -> None:
        self.hub.sweep(self.now)
        self.tick()

    def deliver(self, name: str, event: Event, priority: int) -> None:
        """Deliver an event by all subscriptions of a session, as if decided so."""
        granted = [each for each in self.session(name).granted if "$me" not in each]
        deliveries = self.hub.engine.addressed(event, [(granted, priority)])
        self.hub._dispatcher.deliver(deliveries)
        self.tick()

    def reads(self, name: str) -> list[str]:
        """The payloads that a client got since it was asked last."""
        return [each.payload.decode() for each in self.written.pop(name, [])]

    def settle(self) -> None:
        """Tick until nothing more is brought to anybody."""
        while self.hub.scheduler.replays or self.hub.state.touched:
            self.tick()

    def waiting(self, name: str) -> list[tuple[str, int, float | None]]:
        """Payload, priority and deadline of all that waits, in the order of arrival."""
        return [
            (each.message.frame.payload.decode(), each.priority, each.deadline)
            for each in self.session(name).outbox.messages()
        ]


def event(text: str, **options: object) -> Event:
    values = {"payload": text.encode(), "qos": 1} | options
    return msgspec.structs.replace(Event(text, "news", "ann", 1_000.0), **values)


def fill(house: House) -> None:
    """Fill the queue of somebody who is away, and have the least urgent dropped."""
    house.connect("reader")
    house.subscribe("reader", "news", meta="1")
    house.leave("reader")
    for number in range(2 * QUEUED):
        deadline_s = 50.0 - number if number % 4 == 3 else None
        house.deliver("reader", event(str(number), deadline_s=deadline_s), 1 + number % 3)


if __name__ == "__main__":
    broker = House(Path(sys.argv[1]))
    fill(broker)
    os.write(1, msgspec.json.encode(broker.waiting("reader")))
    os.kill(os.getpid(), signal.SIGKILL)
