"""For tests of your own: an in-memory broker, clients and a network in virtual time.

    with World(seed=7) as world:
        world.broker()
        ann, bob = world.client("ann"), world.client("bob")
        ...
        world.run(10)

Nothing here is asynchronous: calls return at once, and time passes only in `World.run` and its
like.
"""

from nearcast.client.api.options import ClientOptions
from nearcast.simulation.datagrams import (
    DatagramSocket,
    DatagramTooLargeError,
    SocketStatistics,
)
from nearcast.simulation.faults import ALL_KINDS, Fault, FaultKind, plan_faults
from nearcast.simulation.virtual_clock import VirtualClock
from nearcast.simulation.virtual_connection import LinkQuality
from nearcast.simulation.virtual_datagrams import (
    DatagramStatistics,
    VirtualDatagrams,
    VirtualDatagramSocket,
)
from nearcast.simulation.virtual_network import VirtualNetwork
from nearcast.testing.exploring import explore, replay
from nearcast.testing.virtual_broker import VirtualBroker
from nearcast.testing.virtual_client import Receipt, VirtualClient
from nearcast.testing.virtual_disk import DiskQuality
from nearcast.testing.world import World

__all__ = [
    "ALL_KINDS",
    "ClientOptions",
    "DatagramSocket",
    "DatagramStatistics",
    "DatagramTooLargeError",
    "DiskQuality",
    "Fault",
    "FaultKind",
    "LinkQuality",
    "Receipt",
    "SocketStatistics",
    "VirtualBroker",
    "VirtualClient",
    "VirtualClock",
    "VirtualDatagramSocket",
    "VirtualDatagrams",
    "VirtualNetwork",
    "World",
    "explore",
    "plan_faults",
    "replay",
]
