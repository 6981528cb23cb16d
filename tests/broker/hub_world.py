"""Clients of one hub that send as much as they like, one tick at a time, in virtual time."""

from collections.abc import Iterable

from nearcast.broker.auth import Admitted, Peer
from nearcast.broker.auth.admission import OpenAccess
from nearcast.broker.config.settings import Settings
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.store import SessionOwner
from nearcast.wire.mqtt import (
    Connect,
    Decoder,
    Packet,
    Properties,
    Publish,
    Sender,
    Subscribe,
    TopicFilter,
    encode,
)

VERSION = 5


class HubClient:
    """A client of a hub, at an address."""

    def __init__(self, world: "HubWorld", name: str, address: str, keep_alive: int = 0) -> None:
        self.world = world
        self.name = name
        self.connection = Connection(self, Peer(address, False), world.now)
        self.got: list[Packet] = []
        self._answers = Decoder(sender=Sender.SERVER, version=VERSION)
        self.is_closed = False
        self.send(Connect(name, VERSION, keep_alive=keep_alive))

    def send(self, *packets: Packet) -> None:
        """Send packets in one piece."""
        self.send_bytes(b"".join(encode(packet, VERSION) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        self.world.hub.take(self.connection, data, self.world.now)

    def subscribe(self, topic: str, **words: str) -> None:
        pairs = tuple((f"nc-{name}", value) for name, value in words.items())
        wanted = (TopicFilter(topic),)
        self.send(Subscribe(1, wanted, Properties(user_properties=pairs)))

    def publish(self, topic: str, payloads: Iterable[bytes]) -> None:
        self.send(*(Publish(topic, payload) for payload in payloads))

    def hear(self, data: bytes) -> None:
        self.got += self._answers.feed(data)

    @property
    def messages(self) -> list[bytes]:
        """Payloads of the messages it has got."""
        return [each.payload for each in self.got if isinstance(each, Publish)]

    @property
    def cost(self) -> float:
        """What its session has cost so far."""
        session = self.connection.session
        assert session is not None
        return session.account.cost

    @property
    def waits(self) -> bool:
        """Whether its input waits for its turn."""
        return self.connection.must_wait


class AnonymousAccess(OpenAccess):
    """Admits everybody; clients of one address are one user."""

    def owner(self, admitted: Admitted) -> SessionOwner:
        return SessionOwner(address=admitted.peer.address)


class HubWorld:
    """A hub and its clients."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.now = 1_000.0
        self.hub = Hub(settings, admission=AnonymousAccess())
        self.spent: list[float] = []
        """The cost of each tick."""

    def client(self, name: str, address: str = "192.0.2.1", keep_alive: int = 0) -> HubClient:
        """Connect a client."""
        client = HubClient(self, name, address, keep_alive)
        self.tick()
        return client

    def tick(self) -> float:
        """Make one tick; return its cost, with that of input processed on arrival."""
        costs, cost = self.hub.state.costs, [0.0]
        end_of_tick = costs.end_of_tick

        def noted() -> None:
            cost[0] = costs.spent
            end_of_tick()

        costs.end_of_tick = noted  # type: ignore[method-assign]
        try:
            batch = self.hub.tick(self.now)
        finally:
            costs.end_of_tick = end_of_tick  # type: ignore[method-assign]
        for write in batch.writes:
            client = write.connection.host
            assert isinstance(client, HubClient)
            client.hear(write.data)
            client.is_closed = client.is_closed or write.closes
            self.hub.written(write)
        self.hub.validate_state()
        self.spent.append(cost[0])
        return cost[0]

    def settle(self, most: int = 10_000) -> int:
        """Make ticks until nothing waits; return how many."""
        for count in range(1, most):
            self.tick()
            if self.hub.next_timer(self.now) != self.now:
                return count
        raise AssertionError("it never ends")
