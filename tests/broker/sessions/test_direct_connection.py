"""When a shared QoS 0 frame may be appended to a connection as it is, and when it may not."""

from collections.abc import Callable

import pytest

from nearcast.broker.config.settings import Limits, Settings
from nearcast.broker.durability.journal import Journal
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.wire.mqtt import (
    MQTT_5,
    Connect,
    Packet,
    Publish,
    PublishFrame,
    Subscribe,
    TopicFilter,
)

LIMITS = Limits()


def connected() -> tuple[Session, Connection]:
    session, connection = Session("phone"), Connection()
    connection.version = MQTT_5
    session.attach(connection)
    return session, connection


def message(qos: int) -> QueuedDelivery:
    return QueuedDelivery(OutboundMessage(PublishFrame("topic", b"payload")), qos)


def is_direct(session: Session) -> bool:
    return session.direct_connection is not None


def test_an_ordinary_connection_is_written_to_directly() -> None:
    session, connection = connected()
    assert session.direct_connection is connection
    session.validate_state(LIMITS)


def close(session: Session, connection: Connection) -> None:
    connection.close()


def block(session: Session, connection: Connection) -> None:
    connection.block(True)


def pace(session: Session, connection: Connection) -> None:
    session.allowance = 1_000


def queue_unconfirmed(session: Session, connection: Connection) -> None:
    session.put(message(0), LIMITS, Journal())


def detach(session: Session, connection: Connection) -> None:
    session.detach()


@pytest.mark.parametrize("reason", [close, block, pace, queue_unconfirmed, detach])
def test_each_reason_forbids_it(reason: Callable[[Session, Connection], None]) -> None:
    session, connection = connected()
    reason(session, connection)
    assert session.direct_connection is None
    session.validate_state(LIMITS)


@pytest.mark.parametrize("limit", ["largest_packet", "alias_most"])
def test_what_the_client_asked_for_forbids_it(limit: str) -> None:
    session, connection = Session("phone"), Connection()
    setattr(connection, limit, 10)
    session.attach(connection)
    assert session.direct_connection is None


def test_it_is_allowed_again_when_the_reason_has_gone() -> None:
    session, connection = connected()
    connection.block(True)
    connection.block(False)
    assert session.direct_connection is connection
    session.allowance = 1_000
    session.allowance = None
    assert session.direct_connection is connection
    session.put(message(0), LIMITS, Journal())
    session.pump(1.0, LIMITS, Journal())
    assert session.direct_connection is connection
    session.put(message(0), LIMITS, Journal())
    session.drop(lambda _: True, Journal())
    assert session.direct_connection is connection


def test_acknowledged_messages_that_wait_do_not_forbid_it() -> None:
    session, connection = connected()
    session.put(message(1), LIMITS, Journal())
    assert session.direct_connection is connection


def test_what_waits_for_a_paced_link_is_not_overtaken() -> None:
    session, connection = connected()
    session.pace_link(True)
    assert session.direct_connection is connection
    session.put(message(1), LIMITS, Journal())
    assert not is_direct(session)
    session.validate_state(LIMITS)
    session.pump(1.0, LIMITS, Journal())
    assert is_direct(session)
    session.validate_state(LIMITS)


def test_nothing_bypasses_the_queue_of_a_link_that_was_measured_as_thin() -> None:
    session, connection = connected()
    session.link_measured(200.0)
    assert session.direct_connection is connection
    session.pace_link(True)
    session.link_measured(200.0)
    assert not is_direct(session)
    session.link_measured(100_000.0)
    assert is_direct(session)
    session.link_measured(200.0)
    session.pace_link(False)
    assert is_direct(session)


def test_a_paced_session_writes_a_portion_when_the_one_before_is_written() -> None:
    session, connection = connected()
    session.pace_link(True)
    session.link_measured(1.0)
    large = OutboundMessage(PublishFrame("topic", bytes(3_000)))
    for _ in range(5):
        session.put(QueuedDelivery(large, 1), LIMITS, Journal())
    waiting = []
    for _ in range(3):
        session.pump(1.0, LIMITS, Journal())
        # The host has not written it yet.
        session.pump(1.0, LIMITS, Journal())
        waiting.append(session.waiting)
        connection.take()
        session.written()
        session.validate_state(LIMITS)
    assert waiting == [3, 1, 0]


def test_a_new_connection_of_a_paced_session_starts_anew() -> None:
    session, _ = connected()
    session.pace_link(True)
    session.link_measured(200.0)
    session.put(message(1), LIMITS, Journal())
    session.pump(1.0, LIMITS, Journal())
    session.detach()
    new = Connection()
    session.attach(new)
    assert session.direct_connection is new
    session.put(message(1), LIMITS, Journal())
    session.pump(2.0, LIMITS, Journal())
    assert session.waiting == 0


def test_the_old_connection_of_a_session_says_nothing_about_the_new() -> None:
    session, old = connected()
    session.detach()
    new = Connection()
    session.attach(new)
    old.close()
    assert session.direct_connection is new


@pytest.mark.parametrize("paced", [False, True])
def test_only_messages_of_a_paced_session_take_room_in_its_queue(paced: bool) -> None:
    hub = Hub(settings=Settings(limits=Limits(queued=1)))

    def connect(name: str, *packets: Packet) -> Connection:
        connection = Connection()
        hub.receive(connection, [Connect(name, MQTT_5), *packets], 1.0)
        hub.tick(1.0)
        return connection

    connect("reader", Subscribe(1, (TopicFilter("news", 0),)))
    writer = connect("writer")
    hub.sessions["reader"].allowance = 1_000 if paced else None
    hub.receive(writer, [Publish("news", b"one"), Publish("news", b"two")], 1.0)
    (write,) = hub.tick(1.0).writes

    assert (b"one" in write.data) is not paced
    assert b"two" in write.data
    assert hub.sessions["reader"].dropped == paced
