"""Figures 11 and 12: the CPU time of raising and of delivering, through real sockets.

As in the text: an event of five parameters, five filter terms, a stationary circle of 200 m.
Raising includes the check of its type, marshalling, sealing with the group key and sending.
Delivering begins with the sealed datagram and ends with the application's handler. Matching and
signatures are measured apart.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from nearcast.adhoc.adhoc_node import AdhocNode, adhoc
from nearcast.adhoc.errors import MulticastError
from nearcast.adhoc.multicast_socket import MulticastSocket
from nearcast.core.model.geometry.area import circle
from nearcast.core.model.subject import subject_matches
from nearcast.core.proximity.discovery.event_type import EventType, event_type
from nearcast.core.proximity.discovery.proximity import proximity
from nearcast.core.proximity.messages import EventMessage
from nearcast.core.proximity.proximity_node import ProximityNode
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.experiments.experiment_result import Curve, ExperimentFigure, ExperimentRow
from nearcast.experiments.steam.crowds import CENTRE
from nearcast.simulation.network.datagrams import DatagramSocket, Receive, SocketStatistics
from nearcast.wire.beacons.datagram_codec import DatagramCodec
from nearcast.wire.beacons.group_key import GroupKey, KeyRing
from nearcast.wire.beacons.signatures import Member, Signatures, SigningKey

NOTEBOOK_US, ROBOT_US = 1_800.0, 30.0
AREA = circle((CENTRE.lat, CENTRE.lon), 200.0)
CONTENT: dict[str, type | str] = {
    "lane": int,
    "speed": float,
    "name": str,
    "green": bool,
    "at": "position",
}
ATTRIBUTES: dict[str, object] = {
    "lane": 2, "speed": 31.5, "name": "ambulance", "green": True, "at": [CENTRE.lon, CENTRE.lat],
}  # fmt: skip
TERMS = "lane = 2 AND speed > 30 AND name = 'ambulance' AND green = TRUE AND lane < 9"
PLENTY = ProximitySettings(
    channel_bytes_s=1e15, node_share=1.0, type_share=1.0, queue_most=1_000_000
)
KEY = b"latency of one group's key......"


class _Sink:
    """A socket that keeps what is sent, and sends nothing."""

    def __init__(self) -> None:
        self.receive: Receive = lambda data, sender: None
        self.kept: list[bytes] = []

    address = "sink"
    largest_bytes = 1_472

    def send(self, data: bytes, to: str) -> None:
        """Keep a datagram."""
        self.kept.append(data)

    def join(self, group: str) -> None:
        """Join nothing."""

    def leave(self, group: str) -> None:
        """Leave nothing."""

    def close(self) -> None:
        """Close nothing."""

    def statistics(self) -> SocketStatistics:
        """Return no counts."""
        return SocketStatistics()


def latency_rows(
    types: Sequence[int], subscriptions: Sequence[int], count: int, runs: int
) -> tuple[list[ExperimentRow], list[ExperimentFigure]]:
    """Return all rows; `count` events a run, of which the quickest counts."""
    raising = [asyncio.run(_raise_us(number, count, runs)) for number in types]
    rows = [
        ExperimentRow(
            "Figure 11", f"raising, {number} event types announced, all included", ROBOT_US, cost,
            "us", note=f"The robot controller; its notebook took {NOTEBOOK_US:g} us.",
        )
        for number, cost in zip(types, raising, strict=True)
    ]  # fmt: skip
    rows += _filter_rows(types, count, runs)
    delivering = [asyncio.run(_deliver_us(number, count, runs)) for number in subscriptions]
    rows += [
        ExperimentRow(
            "Figure 12", f"delivering, {number} subscriptions to other types, matching included",
            None, cost, "us",
        )
        for number, cost in zip(subscriptions, delivering, strict=True)
    ]  # fmt: skip
    rows += [
        ExperimentRow("Apart", case, None, cost, "us")
        for case, cost in _apart_us(count, runs)
    ]  # fmt: skip
    figures = [
        ExperimentFigure(
            "figure-11", "Raising an event", "event types announced", "us of CPU",
            (Curve("all included", [float(each) for each in types], raising),),
        ),
        ExperimentFigure(
            "figure-12", "Delivering an event", "subscriptions to other types", "us of CPU",
            (Curve("all included", [float(each) for each in subscriptions], delivering),),
            x_log=True,
        ),
    ]  # fmt: skip
    return rows, figures


def type_named(number: int) -> EventType:
    """Return one of many types, whose names are as long as the text's."""
    return event_type(f"application/{number:04}", CONTENT)


async def _raise_us(types: int, count: int, runs: int) -> float:
    node = _node("producer", _sender)
    async with node:
        await node.move(CENTRE.lat, CENTRE.lon)
        kinds = [type_named(number) for number in range(types)]
        for kind in kinds:
            await node.announce(kind, to=AREA)
        kind = kinds[types // 2]

        async def raise_all() -> None:
            for _ in range(count):
                await node.raise_(kind, ATTRIBUTES)

        best = float("inf")
        for _ in range(runs):
            begun = time.process_time()
            await raise_all()
            best = min(best, time.process_time() - begun)
        return 1e6 * best / count


async def _deliver_us(subscriptions: int, count: int, runs: int) -> float:
    sink, idle = _Sink(), _Sink()
    producer, consumer = _node("producer", lambda: sink), _node("consumer", lambda: idle)
    got: list[object] = []
    kind = type_named(0)
    async with producer, consumer:
        for node in (producer, consumer):
            await node.move(CENTRE.lat, CENTRE.lon)
        await consumer.subscribe(kind.subject, got.append, where=TERMS).open()
        for number in range(1, subscriptions + 1):
            await consumer.subscribe(f"other/{number}", got.append, where=TERMS).open()
        await producer.announce(kind, to=AREA)
        for data in sink.kept:
            idle.receive(data, "producer")
        best = float("inf")
        for _ in range(runs):
            sink.kept.clear()
            for _ in range(count):
                await producer.raise_(kind, ATTRIBUTES)
            before, begun = len(got), time.process_time()
            for data in sink.kept:
                idle.receive(data, "producer")
            await asyncio.sleep(0)
            best = min(best, time.process_time() - begun)
            assert len(got) == before + count
        return 1e6 * best / count


def _apart_us(count: int, runs: int) -> list[tuple[str, float]]:
    """What is not in the figures: signatures; and what matching takes of a delivery."""
    event = _message()
    key, ring = SigningKey(KEY), KeyRing([GroupKey(KEY)], b"apart")
    members = {"producer": Member(key.public)}
    signer = Signatures("producer", key)
    signed = [signer.signed(replace(event, number=number)) for number in range(1, count + 1)]
    codec = DatagramCodec(ring, 1_472)
    datagrams = [codec.encode(each)[0] for each in signed]

    def sign() -> None:
        for number in range(1, count + 1):
            signer.signed(replace(event, number=number))

    def verify() -> None:
        reader = Signatures("consumer", None, members)
        for each in signed:
            reader.are_valid(each)

    def read() -> None:
        node = ProximityNode("consumer", PLENTY)
        node.move(CENTRE, 0.0)
        node.subscribe("s", event.subject, 0.0)
        for send in _announcing().announce(type_named(0), AREA, 0.0).sends:
            node.receive(send.message, 0.0)
        for data in datagrams:
            found = codec.decode(data, 0.0)
            assert found is not None
            node.receive(found, 0.0)
        assert node.counts.delivered == count

    ways = (
        ("signing an event", sign),
        ("verifying an event", verify),
        ("delivering without matching: opening, decoding, checking", read),
    )
    return [(what, _least_us(way, count, runs)) for what, way in ways]


def _announcing() -> ProximityNode:
    node = ProximityNode("producer", PLENTY)
    node.move(CENTRE, 0.0)
    return node


def _message() -> EventMessage:
    node = _announcing()
    node.announce(type_named(0), AREA, 0.0)
    _, step = node.raise_event(type_named(0).subject, ATTRIBUTES, 0.0)
    (send,) = step.sends
    assert isinstance(send.message, EventMessage)
    return send.message


def _node(name: str, make: Callable[[], DatagramSocket]) -> AdhocNode:
    # Time stands still: no event is outdated, however busy the machine is.
    found = adhoc(name, key=KEY, settings=PLENTY, clock=lambda: 1e9)
    found._make_socket = make
    return found


def _sender() -> DatagramSocket:
    """Return a real multicast socket that nobody hears, or keep datagrams where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
    try:
        return MulticastSocket("lo" if os.name == "posix" else None, port=port)
    except MulticastError:
        return _Sink()


def _filter_rows(types: Sequence[int], count: int, runs: int) -> list[ExperimentRow]:
    """The subject filter and the proximity filter alone, with as many types as there can be."""
    announced = {type_named(number).subject: type_named(number) for number in range(max(types))}
    pattern = subject = type_named(max(types) // 2).subject
    area = proximity(AREA, CENTRE)

    def match_subject() -> None:
        for _ in range(count):
            subject_matches(pattern, announced[subject].subject)

    def match_proximity() -> None:
        for _ in range(count):
            area.holds(CENTRE, CENTRE)

    return [
        ExperimentRow("Figure 11", f"{what} alone", paper, _least_us(way, count, runs), "us")
        for what, paper, way in (
            ("subject filter", 1.55, match_subject),
            ("proximity filter", 1.45, match_proximity),
        )
    ]


def _least_us(way: Callable[[], None], count: int, runs: int) -> float:
    best = float("inf")
    for _ in range(runs):
        begun = time.process_time()
        way()
        best = min(best, time.process_time() - begun)
    return 1e6 * best / count
