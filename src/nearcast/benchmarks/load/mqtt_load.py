"""The load generator of the broker benchmark: a process that executes orders, one per line.

For each order it connects to a broker, checks that a message is delivered unchanged, and then
measures the broker's CPU time, its own CPU time and the elapsed time. Run it with `python -m`; it
reads orders from standard input and answers each with one line.
"""

import contextlib
import gc
import sys
import time
from collections.abc import Sequence

import msgspec

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.load import mqtt_frames
from nearcast.benchmarks.load.mqtt_clients import (
    Client,
    close_clients,
    open_clients,
    subscribe_clients,
)
from nearcast.benchmarks.load.mqtt_flow import Flow, FlowReceiver, Plan, drive, take_late
from nearcast.benchmarks.load.mqtt_frames import TOPICS
from nearcast.benchmarks.load.mqtt_latency import acknowledgement_latency, delivery_latency
from nearcast.benchmarks.load.orders import (
    AcknowledgementLatency,
    Failed,
    FanOut,
    Flowed,
    Idle,
    Ingest,
    Latency,
    LoadResult,
    Order,
    Rested,
    Sparse,
    Target,
)
from nearcast.benchmarks.load.process_figures import cpu_s, memory_bytes, wait_until_quiet
from nearcast.wire.mqtt import ProtocolError, PubAck, Publish

WARM_CONNECTIONS = 100
"""Opened before memory is measured, so that one-time allocations of a broker are not counted."""


class Load:
    """Executes one order; `close` closes its connections."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._clients: list[Client] = []

    def close(self) -> None:
        """Close all connections and wait until the broker is idle."""
        close_clients(self._clients)
        self._clients.clear()
        with contextlib.suppress(OSError):  # A broker that has ended is idle.
            wait_until_quiet(self._target.pid, 0.0)

    def carry_out(self, order: Order) -> LoadResult:
        """Execute an order and return its figures."""
        if isinstance(order, Ingest):
            return self._ingest(order)
        if isinstance(order, FanOut):
            return self._fan_out(order)
        if isinstance(order, Sparse):
            return self._sparse(order)
        if isinstance(order, Latency):
            return self._latency(order)
        if isinstance(order, AcknowledgementLatency):
            return self._acknowledgement_latency(order)
        return self._idle(order)

    def _ingest(self, order: Ingest) -> Flowed:
        flows, messages = [], 0
        for number, publisher in enumerate(self._open("publisher", order.publishers)):
            topic = f"{TOPICS}/ingest/{number}"
            chunk, count = order.chunk, order.chunks
            if order.qos == 0:
                # A PINGREQ after each chunk: its answer shows that the broker has read the chunk.
                chunks = [mqtt_frames.numbered(topic, chunk) + mqtt_frames.PING]
                unit = mqtt_frames.PING_ANSWER_BYTES
            else:
                chunk = min(chunk, publisher.receive_maximum // 2)
                count = -(-order.chunk * count // chunk)
                chunks = _acknowledged_chunks(topic, chunk)
                unit = chunk * _acknowledgement_bytes(publisher, topic)
            messages += chunk * count
            plan = Plan(chunks, count, [[FlowReceiver(publisher)]], unit, 2)
            flows.append(Flow(publisher, plan))
        return self._measure(flows, messages, messages)

    def _fan_out(self, order: FanOut) -> Flowed:
        publishers = self._open("publisher", order.topics)
        clients = self._open("receiver", order.topics * order.receivers)
        topics = [f"{TOPICS}/fan/{number}" for number in range(order.topics)]
        subscribe_clients(clients, [topic for topic in topics for _ in range(order.receivers)])
        flows = []
        for number, (publisher, topic) in enumerate(zip(publishers, topics, strict=True)):
            mine = clients[number * order.receivers : (number + 1) * order.receivers]
            unit = order.chunk * _delivered_bytes(publisher, [topic], mine)
            chunk = mqtt_frames.numbered(topic, order.chunk)
            block = [FlowReceiver(client) for client in mine]
            plan = Plan([chunk], order.chunks, [block], unit, order.outstanding)
            flows.append(Flow(publisher, plan))
        sent = order.topics * order.chunk * order.chunks
        return self._measure(flows, sent, sent * order.receivers)

    def _sparse(self, order: Sparse) -> Flowed:
        (publisher,) = self._open("publisher", 1)
        clients = self._open("receiver", order.connections)
        topics = [f"{TOPICS}/sparse/{number:06}" for number in range(order.connections)]
        subscribe_clients(clients, topics)
        unit = _delivered_bytes(publisher, topics, clients)
        blocks, chunks = [], []
        for first in range(0, order.connections, order.chunk):
            blocks.append([FlowReceiver(client) for client in clients[first : first + order.chunk]])
            concerned = topics[first : first + order.chunk]
            chunks.append(b"".join(mqtt_frames.message(topic) for topic in concerned))
        plan = Plan(chunks, order.rounds * len(chunks), blocks, unit, order.outstanding)
        sent = order.rounds * order.connections
        return self._measure([Flow(publisher, plan)], sent, sent)

    def _measure(self, flows: Sequence[Flow], sent: int, expected: int) -> Flowed:
        for client in self._clients:
            client.socket.setblocking(False)
        pid = self._target.pid
        wait_until_quiet(pid, self._target.settle_s)
        gc.collect()
        gc.freeze()
        broker, load, began = cpu_s(pid), time.process_time(), time.perf_counter()
        drive(flows)
        wall, load = time.perf_counter() - began, time.process_time() - load
        wait_until_quiet(pid, self._target.settle_s)
        broker = cpu_s(pid) - broker
        gc.unfreeze()
        receivers = [receiver for flow in flows for receiver in flow.receivers]
        take_late(receivers)
        # All messages have the same length, so their number follows from the bytes.
        wanted = sum(flow.expected * len(flow.receivers) for flow in flows)
        arrived = sum(receiver.got for receiver in receivers) * expected / wanted
        return Flowed(sent, round(arrived), expected, broker, load, wall)

    def _latency(self, order: Latency) -> LoadResult:
        (publisher,) = self._open("publisher", 1)
        clients = self._open("receiver", order.receivers)
        topic = f"{TOPICS}/latency"
        subscribe_clients(clients, [topic] * len(clients))
        size = _delivered_bytes(publisher, [topic], clients)
        wait_until_quiet(self._target.pid, self._target.settle_s)
        frame = mqtt_frames.message(topic)
        return delivery_latency(publisher, frame, clients, size, order.messages, order.per_s)

    def _acknowledgement_latency(self, order: AcknowledgementLatency) -> LoadResult:
        (publisher,) = self._open("publisher", 1)
        topic = f"{TOPICS}/latency"
        wait_until_quiet(self._target.pid, self._target.settle_s)
        return acknowledgement_latency(publisher, topic, order.messages, order.per_s)

    def _idle(self, order: Idle) -> Rested:
        pid = self._target.pid
        self._open("warm", WARM_CONNECTIONS)
        wait_until_quiet(pid, self._target.settle_s)
        before = memory_bytes(pid)
        clients = self._open("idle", order.connections)
        wait_until_quiet(pid, self._target.settle_s)
        connected = memory_bytes(pid)
        topics = [f"{TOPICS}/idle/{number:06}" for number in range(order.connections)]
        subscribe_clients(clients, topics)
        wait_until_quiet(pid, self._target.settle_s)
        subscribed = memory_bytes(pid)
        return Rested(
            order.connections,
            (connected - before) / order.connections,
            (subscribed - before) / order.connections,
        )

    def _open(self, role: str, count: int) -> list[Client]:
        names = [f"{role}-{number:06}" for number in range(count)]
        return open_clients(self._target.port, names, self._clients)


def _acknowledged_chunks(topic: str, chunk: int) -> list[bytes]:
    """Two chunks of QoS 1 messages with disjoint packet identifiers, to be sent alternately."""
    return [
        b"".join(mqtt_frames.message(topic, 1, first + at) for at in range(chunk))
        for first in (1, 1 + chunk)
    ]


def _acknowledgement_bytes(publisher: Client, topic: str) -> int:
    """Publish one QoS 1 message and return the size of its PUBACK."""
    publisher.socket.sendall(mqtt_frames.message(topic, 1, 1))
    answer, size = publisher.read_packet()
    if not isinstance(answer, PubAck) or answer.reason_code.failed:
        raise BenchmarkError(f"a PUBLISH of QoS 1 was answered by {answer}")
    return size


def _delivered_bytes(publisher: Client, topics: Sequence[str], clients: Sequence[Client]) -> int:
    """Publish one message per topic, check that it is delivered unchanged, and return its size."""
    publisher.socket.sendall(b"".join(mqtt_frames.message(topic) for topic in topics))
    sizes = set()
    for number, client in enumerate(clients):
        packet, size = client.read_packet()
        wanted = mqtt_frames.published(topics[number % len(topics)])
        if not isinstance(packet, Publish) or not mqtt_frames.is_same(packet, wanted):
            raise BenchmarkError(f"{wanted} was delivered as {packet}")
        sizes.add(size)
    if len(sizes) != 1:
        raise BenchmarkError(f"messages of one length were delivered in lengths of {sizes}")
    return sizes.pop()


def main() -> None:
    """Execute orders from standard input until its end."""
    orders = msgspec.json.Decoder(Order)
    for line in sys.stdin.buffer:
        order = orders.decode(line)
        load = Load(order.target)
        outcome: LoadResult
        try:
            outcome = load.carry_out(order)
        except (BenchmarkError, ProtocolError, OSError) as error:
            outcome = Failed(f"{type(error).__name__}: {error}")
        finally:
            load.close()
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
