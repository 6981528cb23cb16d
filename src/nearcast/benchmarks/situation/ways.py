"""What all ways of keeping movers informed have in common, and Nearcast's way.

With Nearcast a client subscribes once, says where it is, and gets what concerns it. Payloads are
decoded by all receivers in all ways: that is what one does with an event.
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
"""Told a receiver and the numbers of the events that it keeps."""


class Told(Struct, frozen=True, gc=False):
    """An event, as its publisher tells of it."""

    event: int
    kind: str
    speed: float
    text: str = TEXT


class ClientApproach(ABC):
    """A way of keeping movers informed; `flush` sends what is still to be sent."""

    crowd: Crowd

    def __init__(self, journey: Journey, keep: KeepEvents) -> None:
        self.journey = journey
        self.keep = keep
        self.move_messages = 0
        """Packets because of moves, both ways."""

    @abstractmethod
    def join(self) -> None:
        """Let everyone come, at the positions of the first round."""

    @abstractmethod
    def move(self, mover: int, lat: float, lon: float) -> None:
        """Let a mover say where it is."""

    @abstractmethod
    def tell(self, mover: int, told: Told, one: Round) -> None:
        """Let a mover tell of something."""

    @abstractmethod
    def wait(self, number: int) -> None:
        """Wait until all that was told in a round, wanted or not, has arrived."""

    @abstractmethod
    def bytes_moved(self) -> int:
        """Bytes to and from the broker so far."""

    @abstractmethod
    def close(self) -> None:
        """Let everyone go."""

    def flush(self) -> None:
        """Send what was only put together so far."""
        return

    @abstractmethod
    def settle(self) -> None:
        """Wait until all moves hold."""


class MqttWay(ClientApproach):
    """Clients that speak MQTT 5, with one more that asks whether everything was read."""

    def __init__(self, journey: Journey, keep: KeepEvents, port: int) -> None:
        super().__init__(journey, keep)
        self._port = port
        self._clients: list[Client] = []
        self._due = 0

    @abstractmethod
    def expected(self, number: int) -> int:
        """How many events of a round arrive, wanted or not."""

    def wait(self, number: int) -> None:
        """Wait until all that was told in a round, wanted or not, has arrived."""
        self._due += self.expected(number)
        self.crowd.take_until(self._due, 0)

    def bytes_moved(self) -> int:
        """Bytes to and from the broker so far."""
        return self.crowd.sent_bytes + self.crowd.got_bytes

    def close(self) -> None:
        """Let everyone go."""
        if hasattr(self, "crowd"):
            self.crowd.close()
        close_clients(self._clients)

    def connect(self, heard: Callable[[int, list[bytes]], None]) -> None:
        """Connect all movers, and the one who asks."""
        names = [*(f"m{n}" for n in range(self.journey.scenario.movers)), "asks"]
        clients = open_clients(self._port, names, self._clients)
        self.subscribe(clients)
        self.crowd = Crowd(sockets_of(clients), mqtt_payloads, heard)

    @abstractmethod
    def subscribe(self, clients: list[Client]) -> None:
        """Subscribe, as long as answers can be waited for one by one."""

    def ask(self) -> None:
        """Wait until the broker has read what was sent.

        Sockets that can be read are served in the order in which they came to be: who asks after
        all others have sent is answered when they have been read.
        """
        crowd = self.crowd
        crowd.send(self.journey.scenario.movers, mqtt_frames.PING)
        crowd.take_until(0, crowd.answers + 1)


class NearcastWay(MqttWay):
    """One subscription for everything within the radius, and positions."""

    def __init__(self, journey: Journey, keep: KeepEvents, port: int) -> None:
        super().__init__(journey, keep, port)
        self._decode = msgspec.json.Decoder(Told).decode
        self._encode = msgspec.json.Encoder().encode
        self._position = text_field("$me/position")
        self._topic = text_field(EVENT_TOPIC)

    def join(self) -> None:
        """Let everyone come, at the positions of the first round."""
        self.connect(self._heard)
        first = self.journey.rounds[0]
        for mover, (lat, lon) in enumerate(zip(first.lat, first.lon, strict=True)):
            self.move(mover, lat, lon)
        self.settle()

    def subscribe(self, clients: list[Client]) -> None:
        """Subscribe everyone once."""
        journey = self.journey
        movers = clients[: journey.scenario.movers]
        for start in range(0, len(movers), GROUP):
            for mover, client in enumerate(movers[start : start + GROUP], start):
                # As with the others, an event is its payload: nobody asks to be told more.
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
        """Wait until all moves hold."""
        self.ask()

    def tell(self, mover: int, told: Told, one: Round) -> None:
        """Publish an event; it happens where its publisher is."""
        self.crowd.send(mover, publish_frame(self._topic, self._encode(told)))

    def expected(self, number: int) -> int:
        """Nobody gets anything in vain."""
        return len(self.journey.truth[number])

    def _heard(self, mover: int, payloads: list[bytes]) -> None:
        decode = self._decode
        self.keep(mover, [decode(payload).event for payload in payloads])
