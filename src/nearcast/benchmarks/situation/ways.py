"""The common base of all approaches of moving clients, and the approach with Nearcast.

With Nearcast a client subscribes once, publishes its position, and receives only matching events.
Receivers decode every payload in all approaches, as an application would.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import msgspec
from msgspec import Struct

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.load import mqtt_frames
from nearcast.benchmarks.load.mqtt_clients import Client, close_clients, open_clients
from nearcast.benchmarks.load.mqtt_frames import TOPICS
from nearcast.benchmarks.situation.city import KINDS, Journey, Round
from nearcast.benchmarks.situation.clients import (
    Crowd,
    mqtt_payloads,
    publish_frame,
    sockets_of,
    text_field,
)
from nearcast.wire.mqtt import Properties, SubAck, Subscribe, TopicFilter, encode

EVENT_TOPIC = f"{TOPICS}/event"
TEXT = "Slow down, lane closed ahead on the left"
GROUP = 50
KeepEvents = Callable[[int, list[int]], None]
"""Callback with a receiver and the numbers of the events that it keeps."""


class Told(Struct, frozen=True, gc=False):
    """The payload of an event."""

    event: int
    kind: str
    speed: float
    text: str = TEXT


class ClientApproach(ABC):
    """How moving clients receive the events around them; `flush` sends what is queued."""

    crowd: Crowd

    def __init__(self, journey: Journey, keep: KeepEvents) -> None:
        self.journey = journey
        self.keep = keep
        self.move_messages = 0
        """Packets caused by moves, in both directions."""

    @abstractmethod
    def join(self) -> None:
        """Connect all movers, at the positions of the first round."""

    @abstractmethod
    def move(self, mover: int, lat: float, lon: float) -> None:
        """Send a mover's position, or what follows from it."""

    @abstractmethod
    def tell(self, mover: int, told: Told, one: Round) -> None:
        """Publish an event of a mover."""

    @abstractmethod
    def wait(self, number: int) -> None:
        """Wait until all deliveries of a round, useful or not, have arrived."""

    @abstractmethod
    def bytes_moved(self) -> int:
        """Bytes to and from the broker so far."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections."""

    def flush(self) -> None:
        """Send queued messages."""
        return

    @abstractmethod
    def settle(self) -> None:
        """Wait until the server has applied all moves."""


class MqttWay(ClientApproach):
    """MQTT 5 clients, and one more whose PINGREQ shows that the broker has read all packets."""

    def __init__(self, journey: Journey, keep: KeepEvents, port: int) -> None:
        super().__init__(journey, keep)
        self._port = port
        self._clients: list[Client] = []
        self._due = 0

    @abstractmethod
    def expected(self, number: int) -> int:
        """Number of events delivered in a round, useful or not."""

    def wait(self, number: int) -> None:
        """Wait until all deliveries of a round, useful or not, have arrived."""
        self._due += self.expected(number)
        self.crowd.take_until(self._due, 0)

    def bytes_moved(self) -> int:
        """Bytes to and from the broker so far."""
        return self.crowd.sent_bytes + self.crowd.got_bytes

    def close(self) -> None:
        """Close all connections."""
        if hasattr(self, "crowd"):
            self.crowd.close()
        close_clients(self._clients)

    def connect(self, heard: Callable[[int, list[bytes]], None]) -> None:
        """Connect all movers and the client that sends PINGREQ."""
        names = [*(f"m{n}" for n in range(self.journey.scenario.movers)), "asks"]
        clients = open_clients(self._port, names, self._clients)
        self.subscribe(clients)
        self.crowd = Crowd(sockets_of(clients), mqtt_payloads, heard)

    @abstractmethod
    def subscribe(self, clients: list[Client]) -> None:
        """Subscribe the clients, before `crowd` takes over their sockets."""

    def ask(self) -> None:
        """Wait until the broker has read all packets sent so far.

        Sockets are served in the order in which they became readable, so a PINGREQ sent after all
        other packets is answered after they have been read.
        """
        crowd = self.crowd
        crowd.send(self.journey.scenario.movers, mqtt_frames.PING)
        crowd.take_until(0, crowd.answers + 1)


class NearcastWay(MqttWay):
    """One subscription per mover for all events within the radius, and published positions."""

    def __init__(self, journey: Journey, keep: KeepEvents, port: int) -> None:
        super().__init__(journey, keep, port)
        self._decode = msgspec.json.Decoder(Told).decode
        self._encode = msgspec.json.Encoder().encode
        self._position = text_field("$me/position")
        self._topic = text_field(EVENT_TOPIC)

    def join(self) -> None:
        """Connect all movers, at the positions of the first round."""
        self.connect(self._heard)
        first = self.journey.rounds[0]
        for mover, (lat, lon) in enumerate(zip(first.lat, first.lon, strict=True)):
            self.move(mover, lat, lon)
        self.settle()

    def subscribe(self, clients: list[Client]) -> None:
        """Subscribe each mover once."""
        journey = self.journey
        movers = clients[: journey.scenario.movers]
        for start in range(0, len(movers), GROUP):
            for mover, client in enumerate(movers[start : start + GROUP], start):
                # As with the other sides, an event is its payload, without metadata.
                properties = [
                    ("nc-from", f"circle:me,{journey.scenario.radius_m:g}"),
                    ("nc-meta", "0"),
                ]
                if journey.scenario.filtered:
                    kind = KINDS[journey.wishes.kinds[mover]]
                    least = journey.wishes.least_speeds[mover]
                    properties.append(("nc-where", f"kind = '{kind}' AND speed > {least:g}"))
                packet = Subscribe(1, (TopicFilter(EVENT_TOPIC, no_local=True),))
                told = Properties(user_properties=tuple(properties))
                client.socket.sendall(encode(msgspec.structs.replace(packet, properties=told)))
            for client in movers[start : start + GROUP]:
                answer, _ = client.read_packet()
                if not isinstance(answer, SubAck) or answer.reason_codes[0].failed:
                    raise BenchmarkError(f"a SUBSCRIBE was answered by {answer}")

    def move(self, mover: int, lat: float, lon: float) -> None:
        """Publish a position."""
        self.crowd.send(mover, publish_frame(self._position, b"%.6f,%.6f" % (lat, lon)))
        self.move_messages += 1

    def settle(self) -> None:
        """Wait until the server has applied all moves."""
        self.ask()

    def tell(self, mover: int, told: Told, one: Round) -> None:
        """Publish an event; its position is that of its publisher."""
        self.crowd.send(mover, publish_frame(self._topic, self._encode(told)))

    def expected(self, number: int) -> int:
        """Number of expected deliveries: all deliveries are useful."""
        return len(self.journey.truth[number])

    def _heard(self, mover: int, payloads: list[bytes]) -> None:
        decode = self._decode
        self.keep(mover, [decode(payload).event for payload in payloads])
