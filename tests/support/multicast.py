"""Multicast on loopback, for tests that use real sockets."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from nearcast.adhoc.errors import MulticastError
from nearcast.adhoc.group_addresses import BEACONS
from nearcast.adhoc.multicast_socket import MulticastSocket

LOOPBACK = "lo"


def require_multicast() -> None:
    """Skip the test if this machine has no multicast on loopback."""
    try:
        found = MulticastSocket(LOOPBACK)
        try:
            found.join(BEACONS)
        finally:
            found.close()
    except MulticastError as error:
        pytest.skip(f"no multicast on loopback: {error}")


def free_port() -> int:
    """Return a UDP port that nobody uses now, so that tests do not hear each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


async def until_true(holds: Callable[[], bool]) -> None:
    """Wait until something holds, as long as a busy machine may need."""
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)
