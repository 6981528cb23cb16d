"""A `DatagramSocket` of UDP multicast: many groups over few sockets, on one interface.

A kernel lets one socket have 20 memberships, so a further socket is opened for every 20 groups.
Each hears only the groups that it joined itself (`IP_MULTICAST_ALL` off): nothing comes twice, and
nothing that another program asked for. Datagrams go one hop (TTL 1), and those that this node sent
are not heard by it.
"""

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Callable
from typing import Any

from nearcast.adhoc.errors import MulticastError
from nearcast.adhoc.group_addresses import BEACONS, PORT, Family, group_address
from nearcast.simulation.network.datagrams import DatagramTooLargeError, Receive, SocketStatistics

MOST_MEMBERSHIPS = 20
"""What Linux allows one socket (`net.ipv4.igmp_max_memberships`)."""
LARGEST = {4: 1_472, 6: 1_452}
AT_ONCE = 64
"""So many datagrams are read before others get their turn."""
RECEIVE_BUFFER = 1 << 20
_IP_MULTICAST_ALL, _IPV6_MULTICAST_ALL = 49, 29
_NO_ROUTE = (errno.ENETUNREACH, errno.ENODEV, errno.EADDRNOTAVAIL, errno.EHOSTUNREACH)
_DENIED = (errno.EPERM, errno.EACCES)

Hears = Callable[[str], bool]


class MulticastSocket:
    """The socket of one node on one interface."""

    def __init__(
        self,
        interface: str | None = None,
        family: Family = 4,
        port: int = PORT,
        receive: Receive = lambda data, sender: None,
        hears: Hears | None = None,
    ) -> None:
        """Open it; `hears` says whether a sender's address is in range, to emulate a radio.

        Raises `MulticastError` if there is no multicast here.
        """
        self.receive = receive
        self.interface = interface
        self.family: Family = family
        self.port = port
        self.send_failures = 0
        self._hears = hears
        self._index = _interface_index(interface)
        self._groups: dict[str, socket.socket] = {}
        self._sockets: dict[socket.socket, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sent = self._sent_bytes = self._received = self._received_bytes = 0
        try:
            self._out = self._open_sender()
        except OSError as error:
            raise no_multicast(error, interface, family) from error
        self._own = self._out.getsockname()[:2]

    @property
    def address(self) -> str:
        """The address from which it sends."""
        return f"{self._own[0]}:{self._own[1]}"

    @property
    def largest_bytes(self) -> int:
        """The largest datagram that it sends: one frame of Ethernet or Wi-Fi."""
        return LARGEST[self.family]

    @property
    def sockets(self) -> int:
        """How many sockets hold the memberships."""
        return len(self._sockets)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read from now on, in an event loop."""
        self._loop = loop
        for each in self._sockets:
            loop.add_reader(each, self._read, each)

    def renew(self) -> None:
        """Send from another port from now on."""
        try:
            out = self._open_sender()
        except OSError:
            # A link that is down comes back; it goes on from the port of before.
            self.send_failures += 1
            return
        self._out.close()
        self._out, self._own = out, out.getsockname()[:2]

    def send(self, data: bytes, to: str) -> None:
        """Send to all other members of a group.

        What the network does not take now is counted, and lost as on a radio channel.
        """
        if len(data) > self.largest_bytes:
            raise DatagramTooLargeError(len(data), to, self.largest_bytes)
        try:
            self._out.sendto(data, (group_address(to, self.family), self.port))
        except (BlockingIOError, InterruptedError):
            self.send_failures += 1
        except OSError as error:
            if error.errno in _DENIED:
                raise no_multicast(error, self.interface, self.family) from error
            # A link that is down comes back.
            self.send_failures += 1
        else:
            self._sent += 1
            self._sent_bytes += len(data)

    def join(self, group: str) -> None:
        """Join a group to receive its datagrams; raises `MulticastError` if the kernel refuses."""
        if group in self._groups:
            return
        try:
            found = self._with_room()
            self._change(found, group, join=True)
        except OSError as error:
            raise no_multicast(error, self.interface, self.family) from error
        self._groups[group] = found
        self._sockets[found] += 1

    def leave(self, group: str) -> None:
        """Leave a group, if it is a member."""
        found = self._groups.pop(group, None)
        if found is None:
            return
        # An interface that has gone has no memberships.
        with contextlib.suppress(OSError):
            self._change(found, group, join=False)
        self._sockets[found] -= 1
        if not self._sockets[found]:
            self._close(found)

    def close(self) -> None:
        """Leave all groups, and send and receive nothing more."""
        for each in list(self._sockets):
            self._close(each)
        self._groups.clear()
        self._out.close()

    def statistics(self) -> SocketStatistics:
        """Return the counts of the socket."""
        return SocketStatistics(self._sent, self._sent_bytes, self._received, self._received_bytes)

    # Sockets

    def _open_sender(self) -> socket.socket:
        out = _udp_socket(self.family)
        try:
            if self.family == 4:
                out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
                out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
                if self._index:
                    out.setsockopt(
                        socket.IPPROTO_IP, socket.IP_MULTICAST_IF, _request(4, None, self._index)
                    )
            else:
                out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 1)
                out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
                out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, self._index)
            out.bind((self._route(), 0, 0, self._index) if self.family == 6 else (self._route(), 0))
        except OSError:
            out.close()
            raise
        return out

    def _route(self) -> str:
        """Return the address from which multicast goes out here, or raise `OSError`."""
        with _udp_socket(self.family) as probe:
            to = group_address(BEACONS, self.family)
            if self.family == 4:
                if self._index:
                    request = _request(4, None, self._index)
                    probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
                probe.connect((to, self.port))
            else:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, self._index)
                probe.connect((to, self.port, 0, self._index))
            found: str = probe.getsockname()[0]
            return found

    def _with_room(self) -> socket.socket:
        for each, members in self._sockets.items():
            if members < MOST_MEMBERSHIPS:
                return each
        found = _udp_socket(self.family)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "SO_REUSEPORT"):
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            if self.family == 4:
                found.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
                found.bind(("", self.port))
            else:
                found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                found.setsockopt(socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL, 0)
                found.bind(("::", self.port))
        except OSError:
            found.close()
            raise
        self._sockets[found] = 0
        if self._loop is not None:
            self._loop.add_reader(found, self._read, found)
        return found

    def _change(self, found: socket.socket, group: str, *, join: bool) -> None:
        address = group_address(group, self.family)
        request = _request(self.family, address, self._index)
        if self.family == 4:
            what = socket.IP_ADD_MEMBERSHIP if join else socket.IP_DROP_MEMBERSHIP
            found.setsockopt(socket.IPPROTO_IP, what, request)
        else:
            what = socket.IPV6_JOIN_GROUP if join else socket.IPV6_LEAVE_GROUP
            found.setsockopt(socket.IPPROTO_IPV6, what, request)

    def _close(self, found: socket.socket) -> None:
        del self._sockets[found]
        if self._loop is not None:
            self._loop.remove_reader(found)
        found.close()

    def _read(self, found: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                data, sender = found.recvfrom(65_536)
            except OSError:
                return
            if sender[:2] == self._own or self._came_elsewhere(sender):
                continue
            if self._hears and not self._hears(sender[0]):
                continue
            self._received += 1
            self._received_bytes += len(data)
            self.receive(data, f"{sender[0]}:{sender[1]}")
            if found not in self._sockets:
                return

    def _came_elsewhere(self, sender: tuple[Any, ...]) -> bool:
        """Return whether a datagram came over another interface than this one's.

        A membership of IPv6 is for an interface, and lets in what comes over any.
        """
        return self.family == 6 and sender[3] not in (0, self._index)


def no_multicast(error: OSError, interface: str | None, family: Family) -> MulticastError:
    """Return what to do about an error of a socket."""
    where = f"on interface {interface!r}" if interface else "on this machine"
    if error.errno in _DENIED:
        return MulticastError(
            f"sending multicast {where} is not permitted ({error.strerror}): let the firewall "
            f"pass UDP to {'239.0.0.0/8' if family == 4 else 'ff12::/16'}, port {PORT}, or run "
            "where sockets are allowed"
        )
    if error.errno in _NO_ROUTE:
        if family == 4:
            device = interface or _some_interface()
            advice = f"add one with: ip route add 239.0.0.0/8 dev {device}"
        else:
            advice = "name an interface that has IPv6, with interface=..."
        return MulticastError(
            f"there is no route for multicast {where} ({error.strerror}): {advice}; or name "
            "another interface (interfaces are listed by: ip link)"
        )
    if family == 6 and interface is None and error.errno == errno.EINVAL:
        return MulticastError(
            "multicast over IPv6 goes out on one interface: name it, with interface=... "
            f"(there are {_interfaces()})"
        )
    return MulticastError(f"multicast {where} does not work: {error.strerror or error}")


def _udp_socket(family: Family) -> socket.socket:
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    found = socket.socket(kind, socket.SOCK_DGRAM)
    found.setblocking(False)
    return found


def _request(family: Family, address: str | None, index: int) -> bytes:
    """Return a membership request: a group, and an interface by its index."""
    if family == 6:
        assert address is not None
        return struct.pack("@16sI", socket.inet_pton(socket.AF_INET6, address), index)
    group = b"\0" * 4 if address is None else socket.inet_aton(address)
    return struct.pack("@4s4si", group, b"\0" * 4, index)


def _interface_index(interface: str | None) -> int:
    if interface is None:
        return 0
    try:
        return socket.if_nametoindex(interface)
    except OSError:
        raise MulticastError(
            f"there is no interface {interface!r} here; there are {_interfaces()}"
        ) from None


def _interfaces() -> str:
    return ", ".join(name for _, name in socket.if_nameindex())


def _some_interface() -> str:
    """Return an interface that other machines may be on, for advice."""
    return next((name for _, name in socket.if_nameindex() if name != "lo"), "wlan0")
