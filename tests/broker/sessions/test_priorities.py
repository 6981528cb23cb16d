"""Priorities in a session: order, places in flight, overflow, deadlines, metadata, restart."""

from nearcast.broker.config.settings import Limits
from nearcast.broker.durability.journal import Journal
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.quota import UNBOUNDED, Resource
from nearcast.broker.quotas.quota_usage import SessionUsage, UserUsage
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.metadata import enveloped
from nearcast.core.propagation.outbox import WITHHELD
from nearcast.core.propagation.priority_traffic import PriorityTraffic
from nearcast.wire.mqtt import MQTT_5, Decoder, Publish, PublishFrame, Sender
from tests.broker.sessions.session_model import Kept

LIMITS = Limits(queued=4)
METADATA = (("nc-id", "e"), ("nc-priority", "3"), ("nc-subscription", "s"))


class Phone:
    """A session, and what its client reads."""

    def __init__(self, receive_maximum: int = 100, usage: SessionUsage | None = None) -> None:
        self.journal = Journal(keeps=True)
        self.traffic = PriorityTraffic()
        self.session = Session("phone", 0.0, usage, self.traffic)
        self.session.durable = self.session.is_kept = True
        self.session.receive_maximum = receive_maximum

    def connect(self) -> None:
        connection = Connection()
        connection.version = MQTT_5
        self.session.attach(connection)
        self.session.resume(1.0, self.journal)

    def put(self, text: str, priority: int = 1, **options: object) -> list[str]:
        """Queue a message; return what was dropped."""
        delivery = queued(text, priority, **options)  # type: ignore[arg-type]
        dropped = self.session.put(delivery, LIMITS, self.journal)
        self.session.validate_state(LIMITS)
        return [each.message.frame.payload.decode() for each in dropped]

    def goes_directly(self) -> bool:
        return self.session.direct_connection is not None

    def reads(self, now: float = 1.0) -> list[str]:
        return [packet.payload.decode() for packet in self.packets(now)]

    def packets(self, now: float = 1.0) -> list[Publish]:
        self.session.pump(now, LIMITS, self.journal)
        self.session.validate_state(LIMITS)
        assert self.session.connection is not None
        data = self.session.connection.take()
        found = list(Decoder(sender=Sender.SERVER, version=MQTT_5).feed(data))
        return [packet for packet in found if isinstance(packet, Publish)]


def queued(
    text: str,
    priority: int = 1,
    qos: int = 1,
    deadline: float | None = None,
    metadata: tuple[tuple[str, str], ...] = (),
) -> QueuedDelivery:
    frame = PublishFrame("topic", text.encode())
    message = OutboundMessage(frame, "alice", deadline=deadline)
    return QueuedDelivery(message, qos, metadata=metadata, priority=priority)


def test_the_best_priority_leaves_first() -> None:
    phone = Phone()
    for text, priority in (("low", 3), ("high", 1), ("middle", 2)):
        phone.put(text, priority)
    phone.connect()

    assert phone.reads() == ["high", "middle", "low"]
    assert phone.traffic.sent == {1: 1, 2: 1, 3: 1}


def test_lower_levels_take_half_of_the_places_until_they_are_acknowledged() -> None:
    phone = Phone(receive_maximum=4)
    phone.connect()
    for text in ("a", "b", "c"):
        phone.put(text, 2)
    first = phone.packets()
    phone.put("urgent")

    assert [packet.payload for packet in first] == [b"a", b"b"]
    assert phone.reads() == ["urgent"]
    phone.session.acknowledged(first[0].packet_id, phone.journal)
    assert phone.reads() == ["c"]


def test_a_session_without_other_priorities_uses_all_places() -> None:
    phone = Phone(receive_maximum=2)
    phone.connect()
    for text in ("a", "b"):
        phone.put(text, deadline=9.0)

    assert phone.reads() == ["a", "b"]


def test_with_relevance_a_place_is_kept_before_the_first_lower_message_comes() -> None:
    phone = Phone(receive_maximum=3)
    phone.session.pace_link(True)
    phone.connect()
    for text in ("a", "b", "c"):
        phone.put(text)
    assert phone.reads() == ["a", "b"]

    phone.put("low", 3)
    # All of what was given before was written.
    phone.session.written()
    assert phone.reads() == ["low"]


def test_a_message_of_a_lower_priority_is_sent_again_by_who_takes_fewer_at_once() -> None:
    phone = Phone(receive_maximum=2)
    phone.connect()
    phone.put("first", deadline=9.0)
    phone.put("lower", 2)
    assert phone.reads() == ["first", "lower"]
    kept = Kept()
    for change in phone.journal.take().changes:
        kept.apply(change)

    again = Phone(receive_maximum=1)
    again.session = kept.session()
    again.session.receive_maximum = 1
    again.put("due", deadline=3.0)
    again.connect()
    again.session.validate_state(LIMITS)
    assert again.session.waiting == 2


def test_a_full_queue_drops_withheld_messages_then_the_oldest_of_the_lowest_priority() -> None:
    phone = Phone()
    for text, priority in (("urgent", 1), ("old", 3), ("low", 3), ("held", WITHHELD)):
        assert phone.put(text, priority) == []

    assert phone.put("second", 2) == ["held"]
    assert phone.put("third", 3) == ["old"]
    assert phone.put("fourth", 1) == ["low"]
    assert phone.put("fifth", 1) == ["third"]
    assert phone.put("none", 3) == ["none"]
    assert phone.traffic.dropped == {WITHHELD: 1, 3: 4}
    phone.connect()
    assert phone.reads() == ["urgent", "fourth", "fifth", "second"]


def test_what_was_sent_is_never_dropped() -> None:
    phone = Phone(receive_maximum=2)
    phone.connect()
    for text in ("a", "b"):
        phone.put(text, 3)
    phone.session.receive_maximum = 1
    assert len(phone.packets()) == 1
    phone.session.receive_maximum = 100
    phone.reads()
    phone.session.detach()
    phone.session.receive_maximum = 1
    phone.connect()
    dropped = [each for number in range(5) for each in phone.put(f"new {number}")]

    assert dropped == ["new 0", "new 1"]


def test_a_quota_of_all_sessions_drops_the_least_urgent_of_this_one() -> None:
    size = queued("x").size
    bounds = [UNBOUNDED] * len(Resource)
    bounds[Resource.QUEUED_BYTES] = 3 * size
    user = UserUsage("user", bounds)
    phone, other = Phone(usage=SessionUsage("phone", user=user)), SessionUsage("b", user=user)
    assert other.enqueue(size)
    phone.put("a", 2)
    phone.put("b", 3)

    assert phone.put("c", 1) == ["b"]
    assert phone.put("d", 3) == ["d"]
    assert user.used[Resource.QUEUED_BYTES] == 3 * size


def test_past_its_deadline_a_message_of_qos_0_is_dropped_and_others_are_sent() -> None:
    phone = Phone()
    phone.connect()
    for qos in (0, 1, 2):
        phone.put(f"late {qos}", qos=qos, deadline=5.0)
    phone.put("in time", qos=0, deadline=6.0)

    assert phone.reads(now=6.0) == ["late 1", "late 2", "in time"]
    assert phone.traffic.dropped == {1: 1}
    assert phone.session.losses is not None
    assert "deadline" in next(iter(phone.session.losses))


def test_what_waits_gets_other_priorities_and_tells_that_of_its_departure() -> None:
    phone = Phone()
    phone.put("a", 3, metadata=METADATA)
    phone.put("b", 1, metadata=(("nc-priority", "1"),))
    phone.put("c", 2, metadata=(("nc-priority", "2"),))
    phone.session.reprioritise(
        lambda each: {b"a": 1, b"b": 2, b"c": WITHHELD}[each.message.frame.payload]
    )
    phone.connect()
    sent = phone.packets()

    told = [dict(packet.properties.user_properties)["nc-priority"] for packet in sent]
    assert [(packet.payload, p) for packet, p in zip(sent, told, strict=True)] == [
        (b"a", "1"), (b"b", "2"),
    ]  # fmt: skip
    assert phone.session.waiting == 1
    assert phone.traffic.withheld == 1
    phone.session.reprioritise(lambda each: 3)
    assert phone.reads() == ["c"]


def test_a_queue_without_levels_gets_them_when_it_is_reprioritised() -> None:
    phone = Phone()
    phone.put("a")
    phone.put("b")
    phone.session.reprioritise(lambda each: 1)
    phone.session.reprioritise(lambda each: 2 if each.message.frame.payload == b"a" else 1)
    phone.connect()

    assert phone.reads() == ["b", "a"]


def test_an_envelope_tells_the_priority_with_which_it_leaves() -> None:
    phone = Phone()
    phone.connect()
    payload = enveloped(b'{"priority":7}', (("nc-id", '"priority":8'), ("nc-priority", "3")))
    message = OutboundMessage(PublishFrame("topic", payload), "alice", enveloped=True)
    phone.session.put(QueuedDelivery(message, 1, priority=3), LIMITS, phone.journal)
    phone.session.reprioritise(lambda each: 12)
    (text,) = phone.reads()

    assert text == payload.decode().replace('"priority":3', '"priority":12')
    assert '"priority":7' in text


def test_withheld_messages_of_qos_0_do_not_keep_others_from_the_direct_way() -> None:
    phone = Phone()
    phone.connect()
    phone.put("held", 2, qos=0)
    phone.session.reprioritise(lambda each: WITHHELD)
    assert phone.goes_directly()

    phone.session.reprioritise(lambda each: 2)
    assert not phone.goes_directly()
    assert phone.reads() == ["held"]
    assert phone.goes_directly()


def test_priorities_and_deadlines_are_there_after_a_restart() -> None:
    phone = Phone()
    phone.put("a", 3, deadline=9.0)
    phone.put("b", 2)
    phone.put("c", 3, deadline=4.0)
    phone.put("d", 1)
    kept = Kept()
    for change in phone.journal.take().changes:
        kept.apply(change)
    again = Phone()
    again.session = kept.session()
    again.session.receive_maximum = 100
    again.connect()

    # One flow: in order although c is due before a.
    assert again.reads() == ["d", "b", "a", "c"]
