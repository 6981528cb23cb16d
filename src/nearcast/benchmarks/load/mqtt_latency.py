"""Latency at a moderate fixed rate, from just before a message is sent until it is received."""

import select
import time
from collections.abc import Sequence

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.load import mqtt_frames
from nearcast.benchmarks.load.mqtt_clients import Client
from nearcast.benchmarks.load.orders import Delayed
from nearcast.wire.mqtt import PubAck

ARRIVES_WITHIN_S = 30.0


def delivery_latency(
    publisher: Client,
    frame: bytes,
    receivers: Sequence[Client],
    delivered_bytes: int,
    messages: int,
    per_s: float,
) -> Delayed:
    """Send messages with timestamps; return the latency over all messages and receivers."""
    from_end = mqtt_frames.time_from_end(frame)
    sockets = {client.socket.fileno(): client.socket for client in receivers}
    pending = {number: bytearray() for number in sockets}
    late_ns: list[int] = []
    sent = 0
    with select.epoll(len(sockets)) as poll:
        for number in sockets:
            poll.register(number, select.EPOLLIN)
        due = last = time.perf_counter()
        while len(late_ns) < messages * len(receivers):
            now = time.perf_counter()
            if sent < messages and now >= due:
                publisher.socket.sendall(
                    mqtt_frames.stamped(frame, from_end, time.perf_counter_ns())
                )
                sent, due, last = sent + 1, due + 1.0 / per_s, now
            wait = max(0.0, due - now) if sent < messages else ARRIVES_WITHIN_S
            for number, _ in poll.poll(wait):
                data = sockets[number].recv(1 << 16)
                arrived = time.perf_counter_ns()
                if not data:
                    raise BenchmarkError("the broker closed a connection")
                last = time.perf_counter()
                whole = pending[number]
                whole += data
                while len(whole) >= delivered_bytes:
                    sent_ns = mqtt_frames.sent_ns(whole[:delivered_bytes], from_end)
                    late_ns.append(arrived - sent_ns)
                    del whole[:delivered_bytes]
            if time.perf_counter() - last > ARRIVES_WITHIN_S:
                raise BenchmarkError(f"{len(late_ns)} messages arrived, and then none")
    return _delayed(late_ns)


def acknowledgement_latency(
    publisher: Client, topic: str, messages: int, per_s: float | None
) -> Delayed:
    """Send QoS 1 messages one at a time; return the latency of their acknowledgements."""
    late_ns = []
    due = time.perf_counter()
    for number in range(messages):
        time.sleep(max(0.0, due - time.perf_counter()))
        frame = mqtt_frames.message(topic, 1, number % 60_000 + 1)
        began = time.perf_counter_ns()
        publisher.socket.sendall(frame)
        answer, _ = publisher.read_packet()
        late_ns.append(time.perf_counter_ns() - began)
        if not isinstance(answer, PubAck) or answer.reason_code.failed:
            raise BenchmarkError(f"a PUBLISH of QoS 1 was answered by {answer}")
        due += 1.0 / per_s if per_s else 0.0
    return _delayed(late_ns)


def _delayed(late_ns: list[int]) -> Delayed:
    late_ns.sort()
    middle, last = late_ns[len(late_ns) // 2], late_ns[len(late_ns) * 99 // 100]
    return Delayed(len(late_ns), middle / 1e3, last / 1e3)
