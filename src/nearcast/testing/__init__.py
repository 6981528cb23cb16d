"""For tests of your own: an in-memory broker, clients and a network in virtual time.

    with World(seed=7) as world:
        world.broker()
        ann, bob = world.client("ann"), world.client("bob")
        ...
        world.run(10)

Nothing here is asynchronous: calls return at once, and time passes only in `World.run` and its
like.
"""

from nearcast.broker.awareness.link_estimator import LinkFigures as LinkFigures
from nearcast.client.api.options import ClientOptions as ClientOptions
from nearcast.simulation.network.datagrams import DatagramSocket as DatagramSocket
from nearcast.simulation.network.datagrams import DatagramTooLargeError as DatagramTooLargeError
from nearcast.simulation.network.datagrams import SocketStatistics as SocketStatistics
from nearcast.simulation.network.faults import ALL_KINDS as ALL_KINDS
from nearcast.simulation.network.faults import Fault as Fault
from nearcast.simulation.network.faults import FaultKind as FaultKind
from nearcast.simulation.network.faults import plan_faults as plan_faults
from nearcast.simulation.network.radio import RadioSettings as RadioSettings
from nearcast.simulation.network.virtual_connection import LinkQuality as LinkQuality
from nearcast.simulation.network.virtual_datagrams import DatagramStatistics as DatagramStatistics
from nearcast.simulation.network.virtual_datagrams import VirtualDatagrams as VirtualDatagrams
from nearcast.simulation.network.virtual_datagrams import (
    VirtualDatagramSocket as VirtualDatagramSocket,
)
from nearcast.simulation.network.virtual_network import VirtualNetwork as VirtualNetwork
from nearcast.simulation.radio_node import RadioNode as RadioNode
from nearcast.simulation.virtual_clock import VirtualClock as VirtualClock
from nearcast.testing.exploring import explore as explore
from nearcast.testing.exploring import replay as replay
from nearcast.testing.virtual_broker import VirtualBroker as VirtualBroker
from nearcast.testing.virtual_client import Receipt as Receipt
from nearcast.testing.virtual_client import VirtualClient as VirtualClient
from nearcast.testing.virtual_disk import DiskQuality as DiskQuality
from nearcast.testing.virtual_radio import VirtualRadio as VirtualRadio
from nearcast.testing.world import World as World
