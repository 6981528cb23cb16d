"""A broker with little memory survives a flood of retained messages, and goes on serving others."""

from pathlib import Path

from nearcast.wire.mqtt import Connect, PubAck, Publish, ReasonCode
from tests.support.broker_process import BrokerProcess
from tests.support.clients.raw_client import RawClient

ROOM = 150 << 20
"""How much more than at its start the broker may use."""
MESSAGE_BYTES = 100_000
MOST_MESSAGES = 4 * ROOM // MESSAGE_BYTES


def test_a_flood_of_retained_messages_is_refused_before_memory_ends(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "first").wait_until_it_listens()
    used = broker.memory_bytes
    broker.stop()
    limit = {"limits.memory": used + ROOM}
    broker = BrokerProcess(tmp_path / "data", limit).wait_until_it_listens()
    try:
        honest, flood = RawClient(broker.port), RawClient(broker.port)
        assert not honest.connect(Connect("honest")).reason_code.failed
        assert not flood.connect(Connect("flood")).reason_code.failed
        honest.subscribe("news")
        reasons = set()
        for number in range(MOST_MESSAGES):
            payload = number.to_bytes(4, "big") * (MESSAGE_BYTES // 4)
            flood.send(Publish(f"flood/{number}", payload, 1, True, packet_id=1))
            reason = flood.wait_for(PubAck).reason_code
            reasons.add(reason)
            if number % 100 == 0:
                honest.publish("news", b"%d" % number)
                assert honest.message().payload == b"%d" % number
        assert reasons == {ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED}
        assert broker.memory_bytes < used + 2 * ROOM
        assert "WARNING memory stage=" in broker.said
        honest.close()
        flood.close()
        assert broker.stop() == 0
    finally:
        broker.end()
