"""What all parts of a hub share: the engine, the sessions, the running tick."""

from collections import Counter, deque
from collections.abc import Callable

from nearcast.broker.config.settings import Limits
from nearcast.broker.durability.journal import Journal
from nearcast.broker.ingest.pending_inputs import PendingInputs
from nearcast.broker.ingest.random_ids import RandomBytes, random_ids
from nearcast.broker.net.connection import Connection
from nearcast.broker.net.traffic import Traffic
from nearcast.broker.sessions.session import Session
from nearcast.core.engine.engine import Engine
from nearcast.core.model.event import Event
from nearcast.wire.mqtt import (
    MQTT_5,
    Disconnect,
    PacketType,
    Properties,
    ReasonCode,
    encode_within,
)


class BrokerState:
    """The state of one broker between and during ticks."""

    def __init__(
        self, engine: Engine, limits: Limits, journal: Journal, name: str, random_bytes: RandomBytes
    ) -> None:
        self.engine = engine
        self.limits = limits
        self.journal = journal
        self.name = name
        self.counters: Counter[str] = Counter()
        self.traffic = Traffic()
        self.sessions: dict[str, Session] = {}
        self.parts: Counter[str] = Counter()
        """How many sessions each node has."""
        self.online: Counter[str] = Counter()
        """How many of them are connected."""
        self.pending = PendingInputs()
        """What this tick asks of the engine."""
        self.seen: list[tuple[Event, Session]] = []
        """Which lasting sessions get which of those that stay."""
        self.undelivered: dict[str, list[tuple[str, str]]] = {}
        """By session, live events that its queue had no room for: their keys and ids."""
        self.touched: list[Connection] = []
        self.arriving: deque[Connection] = deque()
        self.leaving: deque[tuple[Connection, Session]] = deque()
        self.ids = random_ids(random_bytes)
        """Ids that no other event or client has, whenever this broker was started."""
        self.unique_id: Callable[[], str] = self.ids.__next__

    def has_room_for(self, event: Event) -> bool:
        """Whether an event may stay: instead of another, or as one more."""
        live, key = self.engine.live, self.engine.live_key(event)
        return key in live or self.pending.reserve(key, len(live), self.limits.retained)

    def touch(self, connection: Connection) -> None:
        """A connection has something to write."""
        if not connection.touched:
            connection.touched = True
            self.touched.append(connection)

    def close(self, connection: Connection, reason: ReasonCode, why: str) -> None:
        """Say goodbye; MQTT 3 has no words for it."""
        if connection.closing:
            return
        if connection.version == MQTT_5 and connection.session is not None:
            properties = Properties(reason_string=why) if connection.explains else Properties()
            packet = Disconnect(reason, properties)
            data = encode_within(packet, MQTT_5, connection.largest_packet or 1 << 28)
            if data is not None:
                connection.farewell = data
        connection.close()
        self.touch(connection)

    def acknowledge(self, connection: Connection, packet: PacketType, data: bytes) -> None:
        """Write an acknowledgement that ends a message from the client, or begins to."""
        if packet is not PacketType.PUBREC:
            connection.acknowledgements += 1
        self.write(connection, data)

    def write(self, connection: Connection, data: bytes) -> None:
        """Write a packet that is no message."""
        connection.out.append(data)
        self.traffic.answers_sent += 1
        self.touch(connection)
