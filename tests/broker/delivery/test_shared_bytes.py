"""Who gets the same events in a tick gets the same bytes; who gets anything else does not."""

from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.wire.mqtt import Connect, Decoder, Publish, Sender, Subscribe, TopicFilter, encode

NOW = 1_000.0


class House:
    """A hub, and what it has written to each connection."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.written: dict[int, list[bytes]] = {}

    def client(self, name: str, *topics: str) -> Connection:
        connection = Connection(since=NOW)
        self.hub.take(connection, encode(Connect(name, 5), 5), NOW)
        self.tick()
        for topic in topics:
            self.hub.take(connection, encode(Subscribe(1, (TopicFilter(topic),)), 5), NOW)
        self.tick()
        return connection

    def tick(self) -> None:
        self.written = {}
        for write in self.hub.tick(NOW).writes:
            self.written.setdefault(id(write.connection), []).append(write.data)
            self.hub.written(write)

    def payloads(self, connection: Connection) -> list[bytes]:
        data = b"".join(self.written.get(id(connection), []))
        packets = Decoder(sender=Sender.SERVER, version=5).feed(data)
        return [each.payload for each in packets if isinstance(each, Publish)]


def test_recipients_of_the_same_events_share_the_bytes() -> None:
    house = House()
    publisher = house.client("publisher")
    alike = [house.client(f"reader-{number}", "news/#") for number in range(3)]
    both = house.client("both", "news/#", "other")
    packets = [Publish("news/a", b"1"), Publish("other", b"2"), Publish("news/b", b"3")]
    house.hub.take(publisher, b"".join(encode(each, 5) for each in packets), NOW)
    house.tick()

    first, *others = [house.written[id(each)] for each in alike]
    assert [house.payloads(each) for each in alike] == [[b"1", b"3"]] * 3
    assert house.payloads(both) == [b"1", b"2", b"3"]
    assert all(data is one for each in others for data, one in zip(each, first, strict=True))


def test_what_is_said_at_the_end_of_a_connection_is_for_it_alone() -> None:
    house = House()
    publisher = house.client("publisher")
    leaving, stays = house.client("leaving", "news"), house.client("stays", "news")
    house.hub.take(publisher, encode(Publish("news", b"1"), 5), NOW)
    leaving.farewell = b"\xe0\x00"
    leaving.close()
    house.tick()

    assert house.payloads(stays) == [b"1"]
    assert house.written[id(stays)] != house.written[id(leaving)]
    assert house.written[id(leaving)][0].endswith(b"\xe0\x00")
