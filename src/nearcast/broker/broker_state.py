"""State shared by all parts of a hub: the engine, the sessions, the current tick."""

from collections import Counter, deque
from collections.abc import Callable

from nearcast.broker.auth.rules.people_rules import PeopleRule
from nearcast.broker.config.settings import AdaptationSection, Limits, PropagationSection
from nearcast.broker.delivery.dictionary_book import DictionaryBook
from nearcast.broker.durability.disk_space import DiskCondition
from nearcast.broker.durability.journal import Journal
from nearcast.broker.ingest.pending_inputs import PendingInputs
from nearcast.broker.ingest.random_ids import RandomBytes, random_ids
from nearcast.broker.net.connection import Connection
from nearcast.broker.net.traffic import Traffic
from nearcast.broker.peers.peer_chains import PeerChains
from nearcast.broker.quotas.quota_book import QuotaBook
from nearcast.broker.scheduling.cost_ledger import CostLedger
from nearcast.broker.scheduling.phase_timer import PhaseTimer
from nearcast.broker.sessions.session import Session
from nearcast.core.engine.engine import Engine
from nearcast.core.model.event import Event
from nearcast.core.propagation.priority_traffic import PriorityTraffic
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
        self,
        engine: Engine,
        limits: Limits,
        journal: Journal,
        name: str,
        random_bytes: RandomBytes,
        adaptation: AdaptationSection,
        propagation: PropagationSection,
    ) -> None:
        self.engine = engine
        self.limits = limits
        self.journal = journal
        self.name = name
        self.counters: Counter[str] = Counter()
        self.traffic = Traffic()
        self.dictionaries = DictionaryBook()
        self.peers = PeerChains(propagation, random_bytes, engine.position)
        self.disk = DiskCondition()
        """The condition of the disk, which decides what is recorded and what is refused."""
        self.sessions: dict[str, Session] = {}
        self.costs = CostLedger(self.sessions)
        self.phases = PhaseTimer()
        self.quotas = QuotaBook(limits)
        self.priorities = PriorityTraffic(adaptation.share_bytes)
        self.raising_users = adaptation.raising
        self.people_rules: tuple[PeopleRule, ...] = ()
        """Smallest numbers of people, by topic; the first that fits."""
        self.has_users = False
        """Whether there are users: then they are the people, and else nodes are."""
        self.hidden_clock = ""
        """How events with a smallest people of their own go out."""
        """Patterns of users whose priorities may raise the computed ones."""
        self.is_woken = True
        """Something happened other than an event along a route: parts may have work in a tick."""
        self.now = 0.0
        """The time of this tick, at which its events were ingested."""
        self.parts: Counter[str] = Counter()
        """Number of sessions by node."""
        self.online: Counter[str] = Counter()
        """Number of connected sessions by node."""
        self.forgetting: set[str] = set()
        """Nodes that are being erased; nobody may connect as one."""
        self.pending = PendingInputs()
        """Inputs for the next engine step."""
        self.seen: list[tuple[Event, Session]] = []
        """Live events and the durable sessions for which `LiveSeen` may have to be noted."""
        self.undelivered: dict[str, list[tuple[str, str]]] = {}
        """Live events that did not fit into a session's queue: keys and ids, by session."""
        self.losers: set[Session] = set()
        """Sessions that may have lost messages since the last report."""
        self.touched: list[Connection] = []
        self.arriving: deque[Connection] = deque()
        self.leaving: deque[tuple[Connection, Session]] = deque()
        self.ids = random_ids(random_bytes)
        """Random ids for events and clients, unique across restarts of the broker."""
        self.unique_id: Callable[[], str] = self.ids.__next__

    def touch(self, connection: Connection) -> None:
        """Mark a connection for writing at the end of the tick."""
        if not connection.touched:
            connection.touched = True
            self.touched.append(connection)

    def close(self, connection: Connection, reason: ReasonCode, why: str) -> None:
        """Close a connection, with a DISCONNECT for MQTT 5; MQTT 3 has none from the server."""
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
        """Write an acknowledgement; all but a PUBREC complete a message of the client."""
        if packet is not PacketType.PUBREC:
            connection.acknowledgements += 1
        self.write(connection, data)

    def write(self, connection: Connection, data: bytes) -> None:
        """Write a packet that is not a PUBLISH."""
        connection.out.append(data)
        self.traffic.answers_sent += 1
        if connection.session is not None:
            connection.session.account.packets_sent += 1
        self.touch(connection)
