"""Messages that are read as one run are refused, and begun again, each by itself."""

from nearcast.broker.config.settings import Settings
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.wire.mqtt import (
    MQTT_5,
    Connect,
    Decoder,
    Packet,
    Properties,
    PubAck,
    Publish,
    PubRec,
    ReasonCode,
    Sender,
    encode,
)


class Client:
    """One client of a hub."""

    def __init__(self, hub: Hub, name: str) -> None:
        self._hub, self._name = hub, name
        self.connect()

    def connect(self) -> None:
        self._connection = Connection()
        self._out = Decoder()
        self._in = Decoder(sender=Sender.SERVER, version=MQTT_5)
        keeps = Properties(session_expiry_interval=1000)
        self.send(Connect(self._name, MQTT_5, clean_start=False, properties=keeps))

    def send(self, *packets: Packet) -> list[Packet]:
        data = b"".join(encode(packet, MQTT_5) for packet in packets)
        self._hub.receive(self._connection, self._out.feed(data), 1.0)
        got: list[Packet] = []
        for write in self._hub.tick(1.0).writes:
            got += self._in.feed(write.data)
        return got

    def lose(self) -> None:
        self._hub.lost(self._connection)
        self._hub.tick(1.0)


def test_each_payload_that_is_said_to_be_text_is_checked() -> None:
    client = Client(Hub(Settings()), "ann")
    text = Properties(payload_format_indicator=1)
    payloads = (b"fine", b"\xff", b"fine too")
    run = [Publish("a", each, 1, packet_id=n).with_(text) for n, each in enumerate(payloads, 1)]
    answers = [each for each in client.send(*run) if isinstance(each, PubAck)]
    assert [each.reason_code.failed for each in answers] == [False, True, False]
    assert answers[1].reason_code is ReasonCode.PAYLOAD_FORMAT_INVALID


def test_what_an_unknown_alias_left_unpublished_may_be_sent_again() -> None:
    hub = Hub(Settings())
    client = Client(hub, "ann")
    unknown = Properties(topic_alias=1)
    client.send(*[Publish("", b"x", 2, packet_id=n).with_(unknown) for n in (1, 2, 3)])
    client.lose()
    client.connect()
    before = hub.engine.seq
    again = [Publish("a", b"x", 2, packet_id=n, dup=True) for n in (1, 2, 3)]
    assert [type(each) for each in client.send(*again)] == [PubRec] * 3
    assert hub.engine.seq == before + 3
