"""Datagrams of a virtual network: lost, delayed, duplicated and reordered, by its seed.

A datagram is sent to one host, or to all other members of a group at that time. For each receiver
it is decided separately whether it arrives, when, and how often, by a random generator of the
receiver. It is not received across a partition, or if the receiver does not hear the sender at that
time; nor by a receiver that was closed or left the group before it arrived.
"""

from collections.abc import Callable
from random import Random
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from nearcast.simulation.network.datagrams import (
    LARGEST_BYTES,
    DatagramTooLargeError,
    Receive,
    SocketStatistics,
)
from nearcast.simulation.network.virtual_connection import NetworkPaths, Tell

Hears = Callable[[str, str], bool]
"""Decides whether a receiver hears a sender now; the receiver comes first."""


class DatagramStatistics(Struct):
    """Counts of all datagrams; `addressed + duplicated` is the sum of the counts below them."""

    sent: int = 0
    """Datagrams sent, each counted once, whatever the number of receivers."""
    addressed: int = 0
    """Copies, one for each receiver of a datagram."""
    duplicated: int = 0
    """Copies that the network made."""
    delivered: int = 0
    lost: int = 0
    """Lost by chance."""
    unheard: int = 0
    """Not received: partitioned, out of reach, closed, or no longer in the group."""
    under_way: int = 0


class VirtualDatagrams:
    """All datagrams between the hosts of a virtual network."""

    def __init__(self, paths: NetworkPaths, tell: Tell = lambda who, what: None) -> None:
        self.largest_bytes = LARGEST_BYTES
        """The size of the largest datagram."""
        self._paths = paths
        self._tell = tell
        self._hears: Hears | None = None
        self._sockets: dict[str, VirtualDatagramSocket] = {}
        self._groups: dict[str, dict[str, None]] = {}
        """Members of each group, in the order of joining, so that a run is reproducible."""
        self._chances: dict[str, Random] = {}
        self._last_arrival: dict[tuple[str, str], float] = {}
        self._statistics = DatagramStatistics()

    def open(
        self, host: str, receive: Receive = lambda data, sender: None
    ) -> "VirtualDatagramSocket":
        """Open the only socket of a host; its address is the host's name."""
        if host in self._sockets:
            raise OSError(f"{host!r} has an open socket already")
        if host in self._groups:
            raise OSError(f"{host!r} is the name of a group")
        self._sockets[host] = VirtualDatagramSocket(self, host, receive)
        return self._sockets[host]

    def set_hears(self, hears: Hears | None) -> None:
        """Set a function of receiver and sender that decides reachability; None: all."""
        self._hears = hears

    def members(self, group: str) -> list[str]:
        """Return the members of a group, earliest first."""
        return list(self._groups.get(group, ()))

    def crash(self, host: str) -> None:
        """Close the socket of a host that crashed."""
        socket = self._sockets.get(host)
        if socket is not None:
            socket.close()

    def statistics(self) -> DatagramStatistics:
        """Return the counts of all datagrams."""
        return replace(self._statistics)

    # Called by sockets

    def join(self, host: str, group: str) -> None:
        """Add a host to a group."""
        if group in self._sockets:
            raise OSError(f"{group!r} is the address of a host, and no group")
        self._groups.setdefault(group, {})[host] = None

    def leave(self, host: str, group: str) -> None:
        """Remove a host from a group."""
        members = self._groups.get(group, {})
        members.pop(host, None)
        if not members:
            self._groups.pop(group, None)

    def close(self, host: str) -> None:
        """Remove a socket."""
        for group in [group for group, members in self._groups.items() if host in members]:
            self.leave(host, group)
        del self._sockets[host]

    def send(self, sender: str, data: bytes, to: str) -> None:
        """Send a datagram to all its receivers."""
        if len(data) > self.largest_bytes:
            raise DatagramTooLargeError(len(data), to, self.largest_bytes)
        self._statistics.sent += 1
        if to in self._groups:
            for receiver in self._groups[to]:
                if receiver != sender:
                    self._send_one(sender, data, receiver, to)
        else:
            self._send_one(sender, data, to, None)

    def _send_one(self, sender: str, data: bytes, receiver: str, group: str | None) -> None:
        counts, paths = self._statistics, self._paths
        counts.addressed += 1
        socket = self._sockets.get(receiver)
        hears = self._hears is None or self._hears(receiver, sender)
        if socket is None or not hears or paths.parted(sender, receiver):
            counts.unheard += 1
            return
        quality, chance = paths.quality(sender, receiver), self._chance(receiver)
        if chance.random() < quality.loss:
            counts.lost += 1
            return
        copies = 2 if chance.random() < quality.duplication else 1
        counts.duplicated += copies - 1
        counts.under_way += copies
        for _ in range(copies):
            at = self._arrival(sender, receiver, len(data))
            paths.clock.at(at, lambda: self._arrive(sender, data, socket, group))

    def _arrival(self, sender: str, receiver: str, size: int) -> float:
        """The arrival time of a copy: after earlier ones, unless it is delayed to be overtaken."""
        quality, chance = self._paths.quality(sender, receiver), self._chance(receiver)
        delay_s = chance.uniform(quality.least_delay_s, quality.most_delay_s)
        at = self._paths.clock.now() + size / quality.bytes_per_s + delay_s
        route = sender, receiver
        at = max(at, self._last_arrival.get(route, at))
        if chance.random() < quality.reordering:
            return at + chance.uniform(0.0, quality.reordering_s)
        self._last_arrival[route] = at
        return at

    def _arrive(
        self, sender: str, data: bytes, socket: "VirtualDatagramSocket", group: str | None
    ) -> None:
        counts, receiver = self._statistics, socket.address
        counts.under_way -= 1
        # A host that was closed and opened again has another socket, like a new process.
        is_there = self._sockets.get(receiver) is socket
        is_member = group is None or receiver in self._groups.get(group, ())
        if not is_there or not is_member or self._paths.parted(sender, receiver):
            counts.unheard += 1
            return
        counts.delivered += 1
        self._tell(receiver, f"got a datagram of {len(data)} bytes ({crc32(data):08x}) of {sender}")
        socket.take(data, sender)

    def _chance(self, receiver: str) -> Random:
        found = self._chances.get(receiver)
        if found is None:
            found = self._paths.clock.chance(f"datagrams/{receiver}")
            self._chances[receiver] = found
        return found


class VirtualDatagramSocket:
    """The socket of one host of a virtual network: a `DatagramSocket`."""

    def __init__(self, network: VirtualDatagrams, address: str, receive: Receive) -> None:
        self.receive = receive
        self._network = network
        self._address = address
        self._is_open = True
        self._sent = self._sent_bytes = self._received = self._received_bytes = 0

    @property
    def address(self) -> str:
        """The name of its host."""
        return self._address

    @property
    def largest_bytes(self) -> int:
        """The largest datagram that it sends."""
        return self._network.largest_bytes

    def send(self, data: bytes, to: str) -> None:
        """Send to a host, or to all other members of a group."""
        self._check_open()
        self._network.send(self._address, bytes(data), to)
        self._sent += 1
        self._sent_bytes += len(data)

    def join(self, group: str) -> None:
        """Join a group to receive its datagrams."""
        self._check_open()
        self._network.join(self._address, group)

    def leave(self, group: str) -> None:
        """Leave a group."""
        self._check_open()
        self._network.leave(self._address, group)

    def close(self) -> None:
        """Leave all groups, and send and receive nothing more."""
        if self._is_open:
            self._is_open = False
            self._network.close(self._address)

    def statistics(self) -> SocketStatistics:
        """Return the counts of the socket."""
        return SocketStatistics(self._sent, self._sent_bytes, self._received, self._received_bytes)

    def take(self, data: bytes, sender: str) -> None:
        """Handle a received datagram."""
        self._received += 1
        self._received_bytes += len(data)
        self.receive(data, sender)

    def _check_open(self) -> None:
        if not self._is_open:
            raise OSError(f"the socket of {self._address!r} is closed")
