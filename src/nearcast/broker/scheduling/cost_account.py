"""What the work of sessions costs, and who pays for it.

A unit is about a microsecond of one core. Packets, bytes and deliveries are charged to the session
that sent or published, evaluated filters and candidates to the session that subscribed, replayed
events to the session that they are replayed to.
"""

from typing import TYPE_CHECKING

from nearcast.broker.scheduling.fair_queue import FairQueue, Share

if TYPE_CHECKING:
    from nearcast.broker.net.connection import Connection

PACKET = 2.0
KIBIBYTE = 1.0
"""Of received bytes."""
INPUT = 10.0
"""Of an input that the engine decides."""
DELIVERY = 0.5
REPLAY = 2.0
"""Of a live event that is replayed to a session."""
EVALUATION = 5.0
"""Of a predicate that no kernel decides."""
CANDIDATE = 0.02
"""Of a subscription that a kernel compares with an event."""
FIRST_PRICE = 10.0
"""The estimated cost of a packet of an unknown connection."""
REMEMBERED_PACKETS = 4_096
"""The price of a connection's packets follows from about so many of the latest."""


class CostAccount:
    """The costs that one session has caused since it began, in counts and in units."""

    __slots__ = (
        "bytes", "bytes_sent", "candidates", "client_id", "cost", "deliveries", "evaluations",
        "packets", "packets_sent", "replayed",
    )  # fmt: skip

    def __init__(self, client_id: str = "") -> None:
        self.client_id = client_id
        """Empty for a connection without a session."""
        self.bytes = 0
        self.packets = 0
        self.bytes_sent = 0
        self.packets_sent = 0
        self.deliveries = 0
        self.evaluations = 0
        self.candidates = 0
        self.replayed = 0
        self.cost = 0.0

    def statistics(self) -> dict[str, float]:
        """All counts by name."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "client_id"}


class UserShare(Share):
    """The share of a user, or of an address with anonymous clients."""

    __slots__ = ("connections", "flows", "name")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.flows: FairQueue[Flow] = FairQueue()
        self.connections = 0


class Flow(Share):
    """The share of one connection among those of its user."""

    __slots__ = (
        "_allowance",
        "_refilled_at",
        "account",
        "connection",
        "cost",
        "kept_bytes",
        "paced_until",
        "packets",
        "user",
    )  # fmt: skip

    def __init__(self, connection: "Connection", user: UserShare) -> None:
        super().__init__()
        self.connection = connection
        self.user = user
        self.account = CostAccount()
        """The account of its session; until there is one, its own."""
        self.cost, self.packets = FIRST_PRICE, 1
        """Cost and number of about its latest `REMEMBERED_PACKETS` packets."""
        self.kept_bytes = 0
        """Received bytes that are not paid for yet."""
        self.paced_until = 0.0
        """When it may send more, by the limit of its rate; 0: now."""
        self._allowance = 0.0
        # A new connection may send the packets of one second at once.
        self._refilled_at = connection.since - 1.0

    @property
    def price(self) -> float:
        """The average cost of its latest packets."""
        return self.cost / self.packets

    def forget_half(self) -> None:
        """Let later packets count more than earlier ones."""
        self.packets //= 2
        self.cost /= 2.0

    def pace(self, packets: int, rate: float, now: float) -> bool:
        """Count packets against a rate a second; True if it must wait until `paced_until`."""
        earned = (now - self._refilled_at) * rate
        self._allowance = min(rate, self._allowance + earned) - packets
        self._refilled_at = now
        if self._allowance >= 0.0:
            return False
        self.paced_until = now - self._allowance / rate
        return True
