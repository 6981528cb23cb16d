"""A client at the far end of a thin link: notes when each message came, and acknowledges it."""

import contextlib
import socket
import threading
import time
from collections import Counter

import msgspec

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.thin_link.thin_proxy import shrink
from nearcast.wire.mqtt import (
    MQTT_5,
    ConnAck,
    Connect,
    Decoder,
    Packet,
    Properties,
    PubAck,
    Publish,
    Sender,
    SubAck,
    Subscribe,
    TopicFilter,
    encode,
)

TOPIC = "thin/news"
WAIT_S = 30.0


class Content(msgspec.Struct, frozen=True):
    """A message: urgent or not, and which of its kind."""

    urgent: int
    number: int
    filling: str = ""


class Subscriber:
    """One client, read by a thread."""

    def __init__(self, name: str, port: int, properties: tuple[tuple[str, str], ...]) -> None:
        self._socket = socket.socket()
        shrink(self._socket)
        self._socket.connect(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = Decoder(sender=Sender.SERVER, version=MQTT_5)
        self._answers: Counter[type[Packet]] = Counter()
        self.refused = ""
        self.came: dict[tuple[int, int], float] = {}
        """When each message came first, by urgency and number."""
        self.doubled = 0
        self.priority = 0
        """The priority of the last message that is not urgent; 0: it did not say."""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._ask(Connect(name), ConnAck)
        wanted = (TopicFilter(TOPIC, qos=1),)
        self._ask(Subscribe(1, wanted, Properties(user_properties=properties)), SubAck)

    def count(self, urgent: int) -> int:
        """How many messages of a kind came."""
        return sum(each == urgent for each, _ in list(self.came))

    def close(self) -> None:
        """Cut the connection."""
        with contextlib.suppress(OSError):  # the proxy has cut it
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _ask(self, packet: Packet, answer: type[Packet]) -> None:
        self._socket.sendall(encode(packet))
        deadline = time.monotonic() + WAIT_S
        while not self._answers[answer]:
            if time.monotonic() > deadline or self.refused:
                raise BenchmarkError(f"no {answer.__name__} came {self.refused}")
            time.sleep(0.001)

    def _read(self) -> None:
        try:
            while data := self._socket.recv(65_536):
                for packet in self._decoder.feed(data):
                    self._take(packet)
        except OSError:
            return

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, SubAck) and packet.reason_codes[0].failed:
            self.refused = packet.properties.reason_string or "it was refused"
        self._answers[type(packet)] += 1
        if not isinstance(packet, Publish):
            return
        now = time.monotonic()
        content = msgspec.json.decode(packet.payload, type=Content)
        key = content.urgent, content.number
        self.doubled += key in self.came
        self.came.setdefault(key, now)
        if not content.urgent:
            said = dict(packet.properties.user_properties)
            self.priority = int(said.get("nc-priority", 0))
        if packet.packet_id:
            self._socket.sendall(encode(PubAck(packet.packet_id)))
