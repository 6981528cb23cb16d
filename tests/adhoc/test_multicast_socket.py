"""Real multicast sockets, on loopback."""

import asyncio
import errno

import pytest

from nearcast.adhoc.errors import MulticastError
from nearcast.adhoc.group_addresses import BEACONS, group_address, group_name
from nearcast.adhoc.multicast_socket import MulticastSocket, no_multicast
from nearcast.simulation.network.datagrams import DatagramTooLargeError
from tests.support.multicast import LOOPBACK, free_port, require_multicast


class Pair:
    """Two sockets on loopback, and what the second received."""

    def __init__(self, port: int) -> None:
        require_multicast()
        self.got: list[bytes] = []
        self.changed = asyncio.Event()
        self.one = MulticastSocket(LOOPBACK, port=port)
        self.two = MulticastSocket(LOOPBACK, port=port, receive=self._take)
        for each in (self.one, self.two):
            each.start(asyncio.get_running_loop())

    def _take(self, data: bytes, sender: str) -> None:
        self.got.append(data)
        self.changed.set()

    async def until(self, count: int) -> list[bytes]:
        async with asyncio.timeout(10):
            while len(self.got) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.got

    def close(self) -> None:
        self.one.close()
        self.two.close()


async def many_groups() -> None:
    pair = Pair(free_port())
    try:
        groups = [group_name(number << 8 | 7) for number in range(50)]
        for group in groups:
            pair.two.join(group)
        assert pair.two.sockets == 3
        for number, group in enumerate(groups):
            pair.one.send(bytes((number,)), group)
        await pair.until(50)
        await asyncio.sleep(0.05)
        assert sorted(pair.got) == [bytes((number,)) for number in range(50)]
        for group in groups:
            pair.two.leave(group)
        assert pair.two.sockets == 0
    finally:
        pair.close()


def test_fifty_groups_are_heard_once_each_over_three_sockets() -> None:
    asyncio.run(many_groups())


async def own_and_others() -> None:
    pair = Pair(free_port())
    try:
        pair.two.join(BEACONS)
        pair.one.join("abcdef")
        pair.two.send(b"own", BEACONS)
        pair.one.send(b"not joined", "abcdef")
        pair.one.send(b"other", BEACONS)
        await pair.until(1)
        await asyncio.sleep(0.05)
        assert pair.got == [b"other"]
        assert pair.one.statistics().sent == 2
    finally:
        pair.close()


def test_neither_its_own_datagrams_nor_those_of_other_groups_are_heard() -> None:
    asyncio.run(own_and_others())


def test_addresses_hold_all_24_bits() -> None:
    assert group_address("0000ff", 4) == "239.0.0.255"
    assert group_address("abcdef", 4) == "239.171.205.239"
    assert group_address("abcdef", 6) == "ff12::6e63:ab:cdef"
    addresses = {group_address(group_name(number), 6) for number in range(0, 1 << 24, 4_099)}
    assert len(addresses) == len(range(0, 1 << 24, 4_099))


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENETUNREACH, r"ip route add 239\.0\.0\.0/8 dev wlan7"),
        (errno.EPERM, "is not permitted .* firewall"),
        (errno.ENOBUFS, "does not work"),
    ],
)
def test_an_error_of_the_kernel_says_what_to_do(number: int, says: str) -> None:
    error = no_multicast(OSError(number, "reason"), "wlan7", 4)
    with pytest.raises(MulticastError, match=says):
        raise error


def test_an_interface_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(MulticastError, match=r"no interface 'wlan99' here; there are .*lo"):
        MulticastSocket("wlan99")


def test_a_datagram_that_does_not_fit_a_frame_is_refused() -> None:
    require_multicast()
    found = MulticastSocket(LOOPBACK, port=free_port())
    with pytest.raises(DatagramTooLargeError):
        found.send(b"x" * 2_000, BEACONS)
    found.close()
