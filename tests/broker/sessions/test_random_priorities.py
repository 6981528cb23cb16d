"""Sessions with priorities in random lives: nothing is lost or doubled, flows stay in order.

Which message is next is compared with a plain list in the tests of the outbox; here it is what a
session does round it: packet ids, acknowledgements, reconnections, restarts from the journal.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nearcast.broker.durability.journal import Journal
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.core.propagation.outbox import WITHHELD
from nearcast.wire.mqtt import MQTT_5, PubAck, PubComp, PublishFrame, PubRec, PubRel, encode
from tests.broker.sessions.session_model import LIMITS, PUBLISHERS, Client, Kept

PRIORITIES = st.sampled_from([1, 1, 2, 3])


class PrioritisedSession(RuleBasedStateMachine):
    """A session that outlives its connections, and a client that follows MQTT."""

    def __init__(self) -> None:
        super().__init__()
        self.journal, self.kept = Journal(keeps=True), Kept()
        self.session, self.client = Session("phone"), Client()
        self.session.durable = self.session.is_kept = True
        self.connection: Connection | None = None
        self.now = 1.0
        self.count = 0
        self.owed: dict[bytes, tuple[str, int, int]] = {}
        """Publisher, QoS and priority of what must arrive, by payload."""
        self.is_shuffled = False

    @rule(
        qos=st.integers(0, 2),
        priority=PRIORITIES,
        publisher=st.sampled_from(PUBLISHERS),
        due_s=st.none() | st.floats(0.1, 9.0),
    )
    def put(self, qos: int, priority: int, publisher: str, due_s: float | None) -> None:
        self.count += 1
        deadline = None if due_s is None else self.now + due_s
        frame = PublishFrame("topic", b"%06d" % self.count)
        delivery = QueuedDelivery(
            OutboundMessage(frame, publisher, deadline=deadline), qos, priority=priority
        )
        dropped = self.session.put(delivery, LIMITS, self.journal)
        if qos:
            self.owed[frame.payload] = publisher, qos, priority
        for each in dropped:
            assert not each.was_sent
            self.owed.pop(each.message.frame.payload, None)

    @rule(priorities=st.lists(st.sampled_from([1, 2, 3, WITHHELD]), min_size=1, max_size=3))
    def reprioritise(self, priorities: list[int]) -> None:
        self.is_shuffled = True
        self.session.reprioritise(
            lambda each: priorities[int(each.message.frame.payload) % len(priorities)]
        )

    @rule()
    def pump(self) -> None:
        self.session.pump(self.now, LIMITS, self.journal)

    @rule(seconds=st.floats(0.0, 3.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.connection is None)
    @rule(receive_maximum=st.integers(1, 4))
    def connect(self, receive_maximum: int) -> None:
        connection = self.connection = Connection()
        connection.version = MQTT_5
        self.client.connect(receive_maximum)
        self.session.receive_maximum = receive_maximum
        self.session.attach(connection)
        self.session.resume(self.now, self.journal)

    @precondition(lambda self: self.connection is not None)
    @rule()
    def lose_connection(self) -> None:
        self.session.detach()
        self.connection = None

    @rule()
    def restart(self) -> None:
        """Only what the journal noted survives."""
        self.connection = None
        self.keep()
        waiting = levels_of(self.session)
        self.session = self.kept.session()
        if not self.is_shuffled:
            assert levels_of(self.session) == waiting

    @precondition(lambda self: self.connection is not None)
    @rule()
    def read(self) -> None:
        assert self.connection is not None
        self.client.read(self.connection.take())

    @precondition(lambda self: self.client.answers and self.connection is not None)
    @rule()
    def answer(self) -> None:
        assert self.connection is not None
        packet = self.client.answers.pop(0)
        if isinstance(packet, PubAck):
            self.session.acknowledged(packet.packet_id, self.journal)
        elif isinstance(packet, PubRec):
            reason = self.session.received_by_client(packet.packet_id, self.journal)
            self.connection.out.append(encode(PubRel(packet.packet_id, reason), MQTT_5))
            return
        else:
            assert isinstance(packet, PubComp)
            self.session.completed(packet.packet_id, self.journal)
        self.client.unfinished.discard(packet.packet_id)

    def keep(self) -> None:
        for change in self.journal.take().changes:
            self.kept.apply(change)

    @invariant()
    def holds(self) -> None:
        self.session.validate_state(LIMITS)

    def teardown(self) -> None:
        """When nothing is withheld any more, all that was not dropped arrives, in order."""
        if self.connection is not None:
            self.lose_connection()
        self.session.reprioritise(lambda each: max(1, each.priority))
        self.connect(2)
        while True:
            self.pump()
            self.read()
            if not self.client.answers:
                break
            while self.client.answers:
                self.answer()
        assert not self.session.has_messages
        arrived = [payload for qos, payload in self.client.seen if qos]
        assert set(self.owed) <= set(arrived)
        if not self.is_shuffled:
            for flow in set(self.owed.values()):
                own = [each for each in arrived if self.owed.get(each) == flow]
                assert own == sorted(own)


def levels_of(session: Session) -> list[tuple[bytes, int, float | None]]:
    """Payload, priority and deadline of the stored messages that wait and were not sent."""
    return [
        (each.message.frame.payload, each.priority, each.deadline)
        for each in session.outbox.messages()
        if each.qos and not each.was_sent
    ]


TestPrioritisedSession = PrioritisedSession.TestCase
TestPrioritisedSession.settings = settings(stateful_step_count=40, deadline=None)
