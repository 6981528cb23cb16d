"""A small blocking MQTT client whose session outlives its connections and its broker's lives.

It keeps what MQTT asks a client to keep: messages until their last acknowledgement, which it
sends again in order with their packet ids and DUP, and the ids of received QoS 2 messages until
they are released. It says what was acknowledged and what was received, and nothing else.
"""

import contextlib
import select
import socket
import time
from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from nearcast.wire.mqtt import (
    MQTT_5,
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Sender,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    encode,
)

FOREVER = 0xFFFF_FFFF
ANSWER_WITHIN_S = 60.0


class Got(Struct, frozen=True):
    """A message that came, handed on once if it was of QoS 2."""

    topic: str
    payload: bytes
    qos: int
    retain: bool = False
    dup: bool = False


class GoneError(Exception):
    """The connection is gone; connect again."""


class RefusedError(Exception):
    """The broker does not let the client in."""


class StubbornClient:
    """One client with a session for ever."""

    def __init__(
        self, name: str, version: int = MQTT_5, *, window: int = 20, keep: bool = True
    ) -> None:
        self.name = name
        self.version = version
        self.window = window
        self.keep = keep
        self.connections = 0
        self.got: list[Got] = []
        self.acknowledged: dict[tuple[str, bytes], int] = {}
        """Topics and payloads whose last acknowledgement came, and its reason code."""
        self.answers: dict[int, SubAck | UnsubAck] = {}
        self._socket: socket.socket | None = None
        self._decoder = Decoder(sender=Sender.SERVER, version=version)
        self._sent: dict[int, Publish] = {}
        """Not acknowledged, in the order in which they were first sent."""
        self._released: dict[int, Publish] = {}
        self._received: set[int] = set()
        self._ids: deque[int] = deque(range(1, 65_536))
        self._arrived: deque[Packet] = deque()

    @property
    def connected(self) -> bool:
        """Whether it believes to be connected."""
        return self._socket is not None

    @property
    def unfinished(self) -> int:
        """How many messages wait for an acknowledgement."""
        return len(self._sent) + len(self._released)

    @property
    def has_room(self) -> bool:
        """Whether one more message may be sent."""
        return self.unfinished < self.window

    def connect(self, port: int, password: bytes | None = None) -> bool:
        """Connect, and return whether the broker knew the session; go on where it was left."""
        self.leave()
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_WITHIN_S)
        except OSError as error:
            raise GoneError(str(error)) from error
        self._decoder = Decoder(sender=Sender.SERVER, version=self.version)
        self._arrived.clear()
        five = self.version == MQTT_5 and self.keep
        properties = Properties(session_expiry_interval=FOREVER) if five else Properties()
        self._write(
            Connect(
                self.name, self.version, not self.keep, properties=properties,
                username=None if password is None else self.name, password=password,
            )
        )  # fmt: skip
        while not self._arrived:
            self._read(ANSWER_WITHIN_S, "CONNACK")
        answer = self._arrived.popleft()
        assert isinstance(answer, ConnAck), answer
        if answer.reason_code.failed:
            self.leave()
            raise RefusedError(answer.reason_code.name)
        self.connections += 1
        self._resume(answer.session_present)
        self._handle()
        return answer.session_present

    def _resume(self, present: bool) -> None:
        if not present:
            self._received.clear()
        for packet_id in self._released:
            self._write(PubRel(packet_id))
        for packet_id, message in self._sent.items():
            self._write(replace(message, packet_id=packet_id, dup=True))

    def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        """Send a message; of QoS 1 and 2 it is kept until it is acknowledged, come what may."""
        message = Publish(topic, payload, qos, retain)
        if not qos:
            self._write(message)
            return
        packet_id = self._ids.popleft()
        self._sent[packet_id] = message
        self._write(replace(message, packet_id=packet_id))

    def subscribe(self, *filters: str, qos: int = 2) -> SubAck:
        """Subscribe, and return the answer."""
        packet_id = self._ids.popleft()
        self._write(Subscribe(packet_id, tuple(TopicFilter(each, qos) for each in filters)))
        answer = self._answer(packet_id)
        assert isinstance(answer, SubAck)
        return answer

    def unsubscribe(self, *filters: str) -> UnsubAck:
        """End subscriptions, and return the answer."""
        packet_id = self._ids.popleft()
        self._write(Unsubscribe(packet_id, filters))
        answer = self._answer(packet_id)
        assert isinstance(answer, UnsubAck)
        return answer

    def finish(self, within_s: float = ANSWER_WITHIN_S) -> None:
        """Return once everything that was sent is acknowledged."""
        deadline = time.monotonic() + within_s
        while self.unfinished:
            assert time.monotonic() < deadline, f"{self.name}: {self.unfinished} are unanswered"
            self.listen(0.1)

    def exchange(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> int:
        """Send one message, wait for its acknowledgement, and return the reason code."""
        self.publish(topic, payload, qos, retain=retain)
        self.finish()
        return self.acknowledged[topic, payload]

    def wait_for(self, topic: str, payload: bytes, within_s: float = ANSWER_WITHIN_S) -> Got:
        """Return a message once it is there."""
        deadline = time.monotonic() + within_s
        while True:
            for got in self.got:
                if (got.topic, got.payload) == (topic, payload):
                    return got
            assert time.monotonic() < deadline, f"{self.name}: {topic} {payload!r} did not come"
            self.listen(0.1)

    def listen(self, for_s: float) -> None:
        """Take and answer what comes, for at most so long if nothing does."""
        self._read(for_s, "")
        self._handle()

    def disconnect(self) -> None:
        """Say goodbye."""
        with contextlib.suppress(GoneError):
            self._write(Disconnect())
        self.leave()

    def leave(self) -> None:
        """Let go of the connection without a word."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _answer(self, packet_id: int) -> SubAck | UnsubAck:
        deadline = time.monotonic() + ANSWER_WITHIN_S
        while packet_id not in self.answers:
            assert time.monotonic() < deadline, f"{self.name}: no answer to {packet_id}"
            self.listen(0.1)
        self._ids.append(packet_id)
        return self.answers.pop(packet_id)

    def _write(self, packet: Packet) -> None:
        if self._socket is None:
            raise GoneError("not connected")
        try:
            self._socket.sendall(encode(packet, self.version))
        except OSError as error:
            self.leave()
            raise GoneError(str(error)) from error

    def _read(self, for_s: float, awaited: str) -> None:
        if self._socket is None:
            raise GoneError("not connected")
        try:
            ready, _, _ = select.select([self._socket], [], [], for_s)
            if not ready:
                assert not awaited, f"{self.name}: no {awaited} came within {for_s:g} s"
                return
            data = self._socket.recv(1 << 16)
        except OSError as error:
            self.leave()
            raise GoneError(str(error)) from error
        if not data:
            self.leave()
            raise GoneError("the broker closed the connection")
        self._arrived += self._decoder.feed(data)

    def _handle(self) -> None:
        while self._arrived:
            self._take(self._arrived.popleft())

    def _take(self, packet: Packet) -> None:
        match packet:
            case Publish(qos=2, packet_id=packet_id):
                if packet_id not in self._received:
                    self._received.add(packet_id)
                    self._hand_on(packet)
                self._write(PubRec(packet_id))
            case Publish(qos=qos, packet_id=packet_id):
                self._hand_on(packet)
                if qos:
                    self._write(PubAck(packet_id))
            case PubRel(packet_id):
                self._received.discard(packet_id)
                self._write(PubComp(packet_id))
            case PubAck(packet_id, reason) if packet_id in self._sent:
                self._done(packet_id, self._sent.pop(packet_id), reason)
            case PubRec(packet_id, reason):
                message = self._sent.pop(packet_id, None)
                if message is not None and reason.failed:
                    self._done(packet_id, message, reason)
                    return
                if message is not None:
                    self._released[packet_id] = message
                self._write(PubRel(packet_id))
            case PubComp(packet_id, reason) if packet_id in self._released:
                self._done(packet_id, self._released.pop(packet_id), reason)
            case SubAck(packet_id) | UnsubAck(packet_id):
                self.answers[packet_id] = packet
            case Disconnect(reason, properties):
                self.leave()
                raise GoneError(f"{reason.name}: {properties.reason_string}")
            case _:
                pass

    def _done(self, packet_id: int, message: Publish, reason: int) -> None:
        self._ids.append(packet_id)
        self.acknowledged[message.topic, message.payload] = int(reason)

    def _hand_on(self, packet: Publish) -> None:
        got = Got(packet.topic, packet.payload, packet.qos, packet.retain, packet.dup)
        self.got.append(got)
