"""A session beside a plain model of it and a client that follows MQTT.

The model is two lists, of what waits and what is in flight. The client reads what is written,
unless the connection is lost before, and answers. After every step the session says the same as
the model, the client has seen nothing that MQTT forbids, and a session that is built from the
journal's changes would go on in the same way.
"""

from copy import deepcopy

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nearcast.broker.config.settings import Limits
from nearcast.broker.durability.journal import Journal
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.wire.mqtt import (
    MQTT_5,
    Decoder,
    PubAck,
    PubComp,
    Publish,
    PublishFrame,
    PubRec,
    PubRel,
    ReasonCode,
    Sender,
    encode,
)
from tests.broker.sessions.session_model import (
    LARGE,
    LARGEST_PACKET,
    LIMITS,
    PUBLISHERS,
    Client,
    Kept,
    Model,
    Owed,
)


class SessionAndClient(RuleBasedStateMachine):
    """Whatever may happen to a session, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1.0
        self.count = 0
        self.journal, self.kept = Journal(keeps=True), Kept()
        self.session, self.model, self.client = Session("phone"), Model(), Client()
        self.connection: Connection | None = None
        self.written = Decoder(sender=Sender.SERVER, version=MQTT_5)
        self.ids: dict[bytes, int] = {}
        """Under which packet id each message of QoS 1 and 2 was sent."""
        self.allowance: int | None = None
        self.accepted: list[Owed] = []
        self.excused: set[bytes] = set()
        """Messages that need not arrive any more."""
        self.received: set[int] = set()

    @initialize(durable=st.booleans())
    def begin(self, durable: bool) -> None:
        self.session.durable = self.session.is_kept = durable

    # The broker

    def message(self, publisher: str, large: bool, valid_s: float | None) -> OutboundMessage:
        self.count += 1
        payload = b"%d " % self.count + (LARGE if large else b"")
        expires_at = None if valid_s is None else self.now + valid_s
        return OutboundMessage(PublishFrame("topic", payload), publisher, expires_at)

    @rule(
        qos=st.integers(0, 2),
        publisher=st.sampled_from(PUBLISHERS),
        large=st.booleans(),
        valid_s=st.none() | st.floats(0.0, 5.0),
    )
    def put(self, qos: int, publisher: str, large: bool, valid_s: float | None) -> None:
        message = self.message(publisher, large, valid_s)
        dropped = self.session.put(QueuedDelivery(message, qos), LIMITS, self.journal)
        if not qos and self.connection is None:
            assert not dropped
            return
        owed = Owed(message.frame.payload, qos, publisher, message.size, message.expires_at)
        gone = [each.payload for each in self.model.put(owed)]
        assert [each.message.frame.payload for each in dropped] == gone
        self.accepted.append(owed)
        self.excused.update(gone)

    @rule()
    def write_directly(self) -> None:
        connection = self.session.direct_connection
        if connection is None:
            return
        assert connection is self.connection
        assert not any(not each.qos for each in self.model.waiting)
        message = self.message("alice", False, None)
        connection.out.append(message.frame.at_most_once(MQTT_5))

    @rule()
    def pump(self) -> None:
        connection = self.connection
        before = 0 if connection is None else len(connection.out)
        self.session.pump(self.now, LIMITS, self.journal)
        self.note_ids(before)
        if connection is not None and not connection.blocked:
            window = min(self.session.receive_maximum, LIMITS.in_flight)
            largest = connection.largest_packet
            self.allowance = self.model.pump(self.now, window, largest, self.allowance)
            self.excused.update(each.payload for each in self.accepted if self.is_over(each))

    def note_ids(self, before: int) -> None:
        """See what was written besides what was there before."""
        out = [] if self.connection is None else self.connection.out[before:]
        for packet in self.written.feed(b"".join(out)):
            if isinstance(packet, Publish) and packet.qos:
                number = packet.packet_id
                assert self.ids.setdefault(packet.payload, number) == number, "sent under two ids"

    def sent_as(self, number: int) -> list[Owed]:
        """The messages in flight under a packet id: one or none."""
        return [each for each in self.model.in_flight if self.ids[each.payload] == number]

    def is_over(self, owed: Owed) -> bool:
        """Whether a message has left the session."""
        return owed not in self.model.waiting and owed not in self.model.in_flight

    @rule(allowance=st.none() | st.integers(0, 600))
    def pace(self, allowance: int | None) -> None:
        self.session.allowance = self.allowance = allowance
        if allowance is not None:
            assert self.session.direct_connection is None

    @rule(publisher=st.sampled_from(PUBLISHERS))
    def drop_from(self, publisher: str) -> None:
        gone = self.model.drop(publisher)
        assert self.session.drop_from(publisher, self.journal) == len(gone)
        if self.connection is None:
            self.model.lose_connection()
        self.excused |= gone

    @rule(seconds=st.floats(0.0, 3.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    # The network

    @precondition(lambda self: self.connection is None)
    @rule(
        receive_maximum=st.integers(1, 4),
        is_small=st.booleans(),
        aliases=st.sampled_from([0, 0, 2]),
    )
    def connect(self, receive_maximum: int, is_small: bool, aliases: int) -> None:
        connection = self.connection = Connection()
        connection.version = MQTT_5
        connection.largest_packet = LARGEST_PACKET if is_small else 0
        connection.alias_most = aliases
        self.client.connect(receive_maximum)
        self.session.receive_maximum = receive_maximum
        self.session.attach(connection)
        self.written = Decoder(sender=Sender.SERVER, version=MQTT_5)
        self.session.resume(self.now, self.journal)
        self.note_ids(0)
        self.model.resume(receive_maximum, connection.largest_packet)
        self.excused.update(each.payload for each in self.accepted if self.is_over(each))

    @precondition(lambda self: self.connection is not None)
    @rule()
    def lose_connection(self) -> None:
        """What was written and not read is lost."""
        self.session.detach()
        self.connection = None
        self.model.lose_connection()

    @precondition(lambda self: self.connection is not None)
    @rule(blocked=st.booleans())
    def block(self, blocked: bool) -> None:
        assert self.connection is not None
        self.connection.block(blocked)

    @precondition(lambda self: self.session.durable)
    @rule()
    def restart(self) -> None:
        """Only what the journal noted survives."""
        self.connection = self.allowance = None
        self.keep()
        self.session = self.kept.session()
        self.model.lose_connection()
        lists = self.model.in_flight + self.model.waiting
        self.excused.update(each.payload for each in lists if not each.qos)
        self.model.in_flight = [each for each in lists if each.was_sent]
        self.model.waiting = [each for each in lists if each.qos and not each.was_sent]
        self.model.dropped = 0

    # The client

    @precondition(lambda self: self.connection is not None)
    @rule()
    def read(self) -> None:
        assert self.connection is not None
        self.client.read(self.connection.take())

    @precondition(lambda self: self.client.answers and self.connection is not None)
    @rule(refuse=st.booleans())
    def answer(self, refuse: bool) -> None:
        packet = self.client.answers.pop(0)
        assert isinstance(packet, PubAck | PubRec | PubComp)
        number = packet.packet_id
        if isinstance(packet, PubRec) and not refuse:
            self.receive_pubrec(number)
            return
        if isinstance(packet, PubAck):
            self.session.acknowledged(number, self.journal)
        elif isinstance(packet, PubComp):
            self.session.completed(number, self.journal)
        else:
            self.session.refused_by_client(number, self.journal)
            self.client.open.pop(number, None)
        self.client.unfinished.discard(number)
        self.model.finish([each.payload for each in self.sent_as(number)])

    def receive_pubrec(self, number: int) -> None:
        reason = self.session.received_by_client(number, self.journal)
        found = self.sent_as(number)
        assert (reason is ReasonCode.SUCCESS) == bool(found)
        for each in found:
            each.released = True
        assert self.connection is not None
        self.connection.out.append(encode(PubRel(number, reason), MQTT_5))

    @rule(number=st.integers(1, 3))
    def publish(self, number: int) -> None:
        assert self.session.receive(number, self.journal) is (number not in self.received)
        self.received.add(number)

    @rule(number=st.integers(1, 3))
    def release(self, number: int) -> None:
        assert self.session.release(number, self.journal) is (number in self.received)
        self.received.discard(number)

    # What always holds

    def keep(self) -> None:
        for change in self.journal.take().changes:
            self.kept.apply(change)

    @invariant()
    def agrees_with_the_model(self) -> None:
        self.session.validate_state(LIMITS)
        assert self.session.statistics() == {
            "waiting": len(self.model.waiting),
            "waiting_bytes": sum(each.size for each in self.model.waiting),
            "in_flight": len(self.model.in_flight),
            "received": len(self.received),
            "dropped": self.model.dropped,
        }
        assert self.session.allowance == self.allowance

    @invariant()
    def keeps_the_order_of_each_qos(self) -> None:
        for qos in (0, 1, 2):
            seen = [int(payload.split()[0]) for each, payload in self.client.seen if each == qos]
            assert seen == sorted(seen)

    @invariant()
    def is_rebuilt_from_the_journal(self) -> None:
        self.keep()
        if not self.session.durable:
            assert not self.kept.queue
            return
        rebuilt, known = self.kept.session(), deepcopy(self.session)
        known.detach()
        known.allowance = None
        known.drop(lambda each: not each.qos, Journal())
        assert rebuilt.received == (known.received or None)
        assert owed_by(rebuilt, self.now) == owed_by(known, self.now)

    def teardown(self) -> None:
        """A client that comes back and answers everything has got all that was owed to it."""
        if self.connection is not None:
            self.lose_connection()
        self.pace(None)
        self.connect(4, False, 0)
        while True:
            self.pump()
            self.read()
            if not self.client.answers:
                break
            while self.client.answers:
                self.answer(False)
        assert not self.session.has_messages
        arrived = {payload for _, payload in self.client.seen}
        for each in self.accepted:
            assert not each.qos or each.payload in arrived | self.excused
        self.agrees_with_the_model()


def owed_by(session: Session, now: float) -> list[tuple[int, int, bytes]]:
    """All that a session sends to a client that takes everything; packet ids of what was sent."""
    connection = Connection()
    connection.version = MQTT_5
    session.receive_maximum = LIMITS.queued + 2 * LIMITS.in_flight
    session.attach(connection)
    session.resume(now, Journal())
    session.pump(now, Limits(), Journal())
    found = []
    for packet in Decoder(sender=Sender.SERVER, version=MQTT_5).feed(connection.take()):
        if isinstance(packet, PubRel):
            found.append((0, packet.packet_id, b""))
        else:
            assert isinstance(packet, Publish)
            found.append((packet.qos, packet.packet_id if packet.dup else 0, packet.payload))
    return found


TestSession = SessionAndClient.TestCase
TestSession.settings = settings(stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_that_is_dropped_in_flight_keeps_its_packet_id_until_the_answer(qos: int) -> None:
    session, connection, journal = Session("phone"), Connection(), Journal()
    connection.version, session.receive_maximum = MQTT_5, 1
    session.attach(connection)
    for payload in (b"first", b"second"):
        message = OutboundMessage(PublishFrame("topic", payload), "alice")
        session.put(QueuedDelivery(message, qos), LIMITS, journal)
    session.pump(1.0, LIMITS, journal)
    session.drop(lambda each: each.was_sent, journal)
    session.pump(1.0, LIMITS, journal)
    assert b"second" not in connection.take()

    session.acknowledged(1, journal)
    session.received_by_client(1, journal)
    session.completed(1, journal)
    session.pump(1.0, LIMITS, journal)
    assert b"second" in connection.take()
