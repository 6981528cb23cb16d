"""Clients of a hub, without a network."""

from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.wire.mqtt import (
    Connect,
    Decoder,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Sender,
    encode,
)

Got = tuple[str, bytes, int, bool, tuple[int, ...], tuple[tuple[str, str], ...]]


class Side:
    """A client of the hub that acknowledges everything at once."""

    def __init__(self, hub: Hub, name: str, version: int) -> None:
        self.version = version
        self.connection = Connection()
        self.decoder = Decoder()
        self.answers = Decoder(sender=Sender.SERVER, version=version)
        self.got: list[Got] = []
        self.packet_id = 0
        self.feed(hub, encode(Connect(name, version), version))

    def feed(self, hub: Hub, data: bytes) -> None:
        hub.receive(self.connection, self.decoder.feed(data), 1.0)

    def next_id(self) -> int:
        self.packet_id += 1
        return self.packet_id

    def hear(self, hub: Hub, data: bytes) -> None:
        for packet in self.answers.feed(data):
            if isinstance(packet, Publish):
                properties = packet.properties if packet.raw_properties else Properties()
                self.got.append(
                    (
                        packet.topic,
                        packet.payload,
                        packet.qos,
                        packet.retain,
                        tuple(sorted(properties.subscription_identifiers)),
                        properties.user_properties,
                    )
                )
                if packet.qos == 1:
                    self.feed(hub, encode(PubAck(packet.packet_id), self.version))
                elif packet.qos == 2:
                    self.feed(hub, encode(PubRec(packet.packet_id), self.version))
            elif isinstance(packet, PubRec):
                self.feed(hub, encode(PubRel(packet.packet_id), self.version))
            elif isinstance(packet, PubRel):
                self.feed(hub, encode(PubComp(packet.packet_id), self.version))


def run(hub: Hub, sides: dict[str, Side]) -> None:
    by_connection = {side.connection: side for side in sides.values()}
    while True:
        batch = hub.tick(1.0)
        if not batch.writes:
            break
        for write in batch.writes:
            assert not write.closes
            by_connection[write.connection].hear(hub, write.data)
            hub.written(write)
    hub.validate_state()
