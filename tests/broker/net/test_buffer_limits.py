"""Half-read packets and unread output of all connections together are bounded."""

from nearcast.broker.config.settings import Limits, Settings
from nearcast.wire.mqtt import Connect, Disconnect, Packet, Publish, ReasonCode, encode
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker


def test_the_largest_half_read_packets_are_not_waited_for() -> None:
    broker = RunningBroker(Settings(limits=Limits(input_bytes=150_000)))
    half = encode(Publish("big", bytes(110_000)))[:100_000]
    honest = Talker(broker, "honest")
    honest.subscribes("news")
    clients = [broker.client(name) for name in ("a", "b")]
    for client in clients:
        client.send(half)
    ended: list[Packet] = []
    for client in clients:
        client.socket.settimeout(0.5)
    while not ended:
        for client in clients:
            try:
                ended.append(client.receive())
            except TimeoutError:
                continue
    (packet,) = ended
    assert isinstance(packet, Disconnect)
    assert packet.reason_code is ReasonCode.QUOTA_EXCEEDED
    assert packet.properties.reason_string == (
        "200000 bytes of all clients are not processed, 100000 of this one; limits.input_bytes "
        "allows 150000 in all"
    )
    honest.sends("news", b"x")
    assert honest.payloads() == [b"x"]
    assert not broker.open().connect(Connect("c")).reason_code.failed
    broker.validate()
    broker.stop()
