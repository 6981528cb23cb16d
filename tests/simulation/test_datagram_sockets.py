"""One protocol on virtual sockets and on real ones of UDP: the interface fits both."""

import select
import socket
import time
from collections.abc import Callable

import pytest

from nearcast.simulation.network.datagrams import (
    LARGEST_BYTES,
    DatagramSocket,
    DatagramTooLargeError,
    Receive,
    SocketStatistics,
)
from nearcast.testing import World

WITHIN_S = 20.0


class Neighbour:
    """Says its name in a group, and answers whom it hears there for the first time."""

    def __init__(self, name: str, own: DatagramSocket, group: str) -> None:
        self.socket = own
        self.group = group
        self.known: dict[str, str] = {}
        self._name = name.encode()
        own.receive = self._heard
        own.join(group)

    def say(self) -> None:
        self.socket.send(b"I am " + self._name, self.group)

    def _heard(self, data: bytes, sender: str) -> None:
        if sender not in self.known:
            self.socket.send(b"I am " + self._name, sender)
        self.known[sender] = data.removeprefix(b"I am ").decode()


class UdpSocket:
    """A real socket on the loopback interface; addresses are `HOST:PORT`."""

    def __init__(self) -> None:
        self.receive: Receive = lambda data, sender: None
        self._own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._own.bind(("127.0.0.1", 0))
        self._own.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, _LOOPBACK)
        self._groups: dict[str, socket.socket] = {}
        self._counts = [0, 0, 0, 0]

    @property
    def address(self) -> str:
        return _shown(self._own.getsockname())

    @property
    def largest_bytes(self) -> int:
        return LARGEST_BYTES

    def send(self, data: bytes, to: str) -> None:
        if len(data) > self.largest_bytes:
            raise DatagramTooLargeError(len(data), to, self.largest_bytes)
        host, _, port = to.partition(":")
        self._own.sendto(data, (host, int(port)))
        self._count(0, data)

    def join(self, group: str) -> None:
        host, _, port = group.partition(":")
        if group not in self._groups:
            one = self._groups[group] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((host, int(port)))
            member = socket.inet_aton(host) + _LOOPBACK
            one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)

    def leave(self, group: str) -> None:
        if group in self._groups:
            self._groups.pop(group).close()

    def close(self) -> None:
        for each in (self._own, *self._groups.values()):
            each.close()
        self._groups.clear()

    def statistics(self) -> SocketStatistics:
        return SocketStatistics(*self._counts)

    def poll(self, wait_s: float) -> None:
        """Hand on what has come."""
        ready, _, _ = select.select([self._own, *self._groups.values()], [], [], wait_s)
        for each in ready:
            data, sender = each.recvfrom(LARGEST_BYTES)
            if _shown(sender) != self.address:
                self._count(2, data)
                self.receive(data, _shown(sender))

    def _count(self, place: int, data: bytes) -> None:
        self._counts[place] += 1
        self._counts[place + 1] += len(data)


_LOOPBACK = socket.inet_aton("127.0.0.1")


def _shown(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def meet(
    sockets: list[DatagramSocket], group: str, run_until: Callable[[Callable[[], bool]], None]
) -> None:
    """Let three get to know each other, one leave, and one find that it says too much."""
    names = ("ann", "bob", "cleo")
    ann, bob, cleo = (Neighbour(name, own, group) for name, own in zip(names, sockets, strict=True))
    everyone = {one.socket.address: name for one, name in zip((ann, bob, cleo), names, strict=True)}

    def known(one: Neighbour) -> bool:
        return {**one.known, one.socket.address: everyone[one.socket.address]} == everyone

    ann.say()
    run_until(lambda: known(ann))
    bob.say()
    run_until(lambda: known(ann) and known(bob) and known(cleo))
    cleo.socket.leave(group)
    before = cleo.socket.statistics().received
    ann.say()
    ann.socket.send(b"I am ann", cleo.socket.address)
    run_until(lambda: cleo.socket.statistics().received > before)
    with pytest.raises(DatagramTooLargeError):
        ann.socket.send(bytes(ann.socket.largest_bytes + 1), group)
    cleo.socket.close()
    with pytest.raises(OSError, match=r"closed|Bad file descriptor"):
        cleo.socket.send(b"", ann.socket.address)


def test_neighbours_meet_in_virtual_time() -> None:
    with World(seed=7) as world:
        sockets: list[DatagramSocket] = [
            world.network.datagrams.open(name) for name in ("ann", "bob", "cleo")
        ]
        meet(sockets, "beacons", world.run_until)


def test_neighbours_meet_over_udp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        group = f"239.255.77.7:{free.getsockname()[1]}"
    sockets = [UdpSocket() for _ in range(3)]

    def run_until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not condition():
            assert time.monotonic() < deadline, "what was sent on this machine did not arrive"
            for each in sockets:
                each.poll(0.01)

    try:
        sockets[0].join(group)
        sockets[1].send(b"is there multicast?", group)
    except OSError as error:
        pytest.skip(f"no multicast on the loopback interface: {error}")
    try:
        meet(list(sockets), group, run_until)
    finally:
        for each in sockets:
            each.close()
