"""What a running broker does when memory is short, and that it recovers."""

from collections.abc import Iterator

import pytest

from nearcast.broker.config.settings import Limits, Settings
from nearcast.broker.net.links import Hold, Link
from nearcast.broker.quotas.memory_budget import MemoryStage
from nearcast.broker.sessions.session import Session
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    Connect,
    Disconnect,
    Properties,
    Publish,
    ReasonCode,
)
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until

LIMIT = 1_000 << 20


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    running = RunningBroker(Settings(limits=Limits(memory=LIMIT, unsent_bytes=10_000)))
    uses(running, 0.1)
    yield running
    running.validate()
    running.stop()


def uses(broker: RunningBroker, part: float) -> None:
    """Let the broker believe that it uses so much of its limit."""
    server = broker.server

    async def check() -> None:
        server.measure_memory = lambda: int(part * LIMIT)
        server.hub.memory.check(server.measure_memory(), server.now())
        server.soon()

    broker.run(check())


def session(broker: RunningBroker, talker: Talker) -> Session:
    return broker.server.hub.sessions[talker.client.client_id]


def test_what_is_new_is_refused_and_what_is_there_goes_on(broker: RunningBroker) -> None:
    old = Talker(broker, "old", expiry=600)
    old.subscribes("news")
    old.sends("kept", b"1", 1, True)
    away = Talker(broker, "away", expiry=600)
    broker.lose(away.client)
    uses(broker, 0.86)

    assert old.subscribes("more") == (ReasonCode.QUOTA_EXCEEDED,)
    assert old.reason == (
        "the broker uses 860 MiB of the 1000 MiB of limits.memory: nothing new is accepted now"
    )
    assert old.sends("other", b"1", 1, True) == ReasonCode.QUOTA_EXCEEDED
    assert old.sends("kept", b"2", 1, True) == ReasonCode.SUCCESS, "it replaces another"
    assert old.sends("news", b"3") == ReasonCode.SUCCESS
    assert old.payloads() == [b"3"]
    for version, expiry, reason in (
        (MQTT_5, 600, ReasonCode.QUOTA_EXCEEDED),
        (MQTT_5, None, ReasonCode.SERVER_BUSY),
        (MQTT_3_1_1, None, ReasonCode.SERVER_UNAVAILABLE),
    ):
        properties = Properties(session_expiry_interval=expiry)
        packet = Connect("new", version, properties=properties if expiry else Properties())
        assert broker.open(version).connect(packet).reason_code is reason
    Talker(broker, "away", clean=False, expiry=600)

    uses(broker, 0.82)
    assert old.subscribes("more") == (ReasonCode.QUOTA_EXCEEDED,), "not yet clearly less"
    uses(broker, 0.5)
    assert old.subscribes("more") == (ReasonCode.GRANTED_QOS_1,)
    Talker(broker, "new")


def test_the_largest_queues_lose_messages_of_qos_0_and_are_told(broker: RunningBroker) -> None:
    slow = Talker(broker, "slow")
    slow.subscribes("$me/errors")
    slow.subscribes("big", properties=Properties(user_properties=(("nc-meta", "1"),)))
    fill(broker, slow)
    publisher = session(broker, slow).connection
    assert publisher is not None
    uses(broker, 0.91)

    link = publisher.host
    assert isinstance(link, Link)
    until(lambda: link.is_held(Hold.MEMORY), "its user is not read")
    assert session(broker, slow).waiting_bytes < 1_000, "nothing but the report"
    shed = broker.server.hub.state.counters["shed"]
    assert shed > 0
    uses(broker, 0.1)
    until(lambda: not link.is_held(Hold.MEMORY), "its user is read again")
    told = [message for message in slow_messages(slow) if message.topic == "$me/errors"]
    assert [message.payload for message in told] == [
        b'{"error":"%d messages were dropped on the way to this session: the broker was short of '
        b'memory (limits.memory)","topic":""}' % shed
    ]


def fill(broker: RunningBroker, slow: Talker) -> None:
    """Publish until messages wait for a client that does not read."""
    other = Talker(broker, "publisher")
    for _ in range(400):
        other.sends("big", bytes(50_000), 0)
        other.gets()
        if session(broker, slow).waiting_bytes > 1_000_000:
            return
    pytest.fail("everything was read")


def slow_messages(slow: Talker) -> list[Publish]:
    """All messages up to a report of losses, which comes once the queue has room."""
    found: list[Publish] = []
    while not found or found[-1].topic != "$me/errors":
        packet = slow.client.receive()
        if isinstance(packet, Publish):
            found.append(packet)
    return found


def test_clients_of_the_user_with_most_queued_bytes_are_disconnected(
    broker: RunningBroker,
) -> None:
    slow = Talker(broker, "slow")
    slow.subscribes("big", qos=1)
    other = Talker(broker, "other")
    for _ in range(400):
        other.sends("big", bytes(50_000), 1)
        if session(broker, slow).waiting_bytes > 1_000_000:
            break
    uses(broker, 0.96)

    packet: object = None
    while not isinstance(packet, Disconnect):
        packet = slow.client.receive()
    assert packet.reason_code is ReasonCode.QUOTA_EXCEEDED
    assert "bytes wait for this client" in (packet.properties.reason_string or "")
    uses(broker, 0.1)
    assert broker.server.hub.memory.stage is MemoryStage.NORMAL
    assert other.sends("big", b"", 1) == ReasonCode.SUCCESS
