"""A client and the reference server, joined by a link and led by hand."""

from nearcast.client.api.options import ClientOptions
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.wire.mqtt import NO_PROPERTIES, Packet
from tests.client.protocol.reference_server import Link, ReferenceServer

KEPT = ClientOptions(client_id="c", session_expiry_s=60)


class Pair:
    """A client and a server that is led by hand."""

    def __init__(
        self, options: ClientOptions = KEPT, server: ReferenceServer | None = None
    ) -> None:
        self.client = ClientProtocol(options)
        self.server = server or ReferenceServer(options.version)
        self.link = Link(self.client, self.server)

    def connect(self) -> "Pair":
        self.link.connect()
        self.link.settle()
        self.server.seen.clear()
        return self

    def reconnect(self) -> "Pair":
        self.link.cut()
        return self.connect()

    def hear(self, *packets: Packet) -> list[object]:
        """Have the server say something, and return what happened by it."""
        self.link.happened.clear()
        for packet in packets:
            self.server.say(packet)
        self.link.settle()
        return list(self.link.happened)

    def publish(self, payload: bytes = b"x", qos: int = 1, retain: bool = False) -> int:
        return self.client.publish("a", payload, qos, retain, NO_PROPERTIES, 0.0)

    def told(self) -> list[Packet]:
        """What the server has heard since the last time."""
        self.link.settle()
        seen = list(self.server.seen)
        self.server.seen.clear()
        return seen
