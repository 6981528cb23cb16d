"""Flows: a publisher that sends chunks of encoded messages, and their receivers.

One loop drives all flows through epoll and only counts bytes, because the length of every message
is known: a message costs the load generator a small fraction of a system call. A flow has at most
`outstanding` chunks in flight, so that no broker has to drop a message.
"""

import select
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.load.mqtt_clients import Client

STALLED_S = 30.0
BUFFER_BYTES = 1 << 18
MOST_EVENTS = 4_096


class FlowReceiver:
    """A client that receives `unit` bytes for every chunk of its block."""

    __slots__ = ("block", "flow", "got", "socket")

    def __init__(self, client: Client) -> None:
        self.socket = client.socket
        self.flow: Flow
        self.block = 0
        self.got = 0


class Plan(NamedTuple):
    """The chunks and receivers of a flow; chunk i is for block i modulo the number of blocks."""

    chunks: Sequence[bytes]
    """Sent in order, starting again after the last."""
    total: int
    """Number of chunks to send; a multiple of the number of blocks."""
    blocks: Sequence[Sequence[FlowReceiver]]
    unit: int
    """Bytes received by a receiver for each chunk of its block."""
    outstanding: int


class Flow:
    """One publisher with its receivers."""

    def __init__(self, publisher: Client, plan: Plan) -> None:
        self._chunks, self._total, self._blocks, self._unit, self._outstanding = plan
        assert self._total % len(self._blocks) == 0, "every receiver gets as many chunks"
        self.socket = publisher.socket
        self.receivers = [receiver for block in self._blocks for receiver in block]
        self.expected = self._unit * (self._total // len(self._blocks))
        """Bytes expected by each receiver in all."""
        self.sent = self.done = 0
        self._current = self._goal = self._waiting = 0
        self._rest: memoryview | None = None
        for number, block in enumerate(self._blocks):
            for receiver in block:
                receiver.flow, receiver.block = self, number
        self._expect()

    @property
    def finished(self) -> bool:
        """True if all receivers have all chunks."""
        return self.done == self._total

    def push(self) -> bool:
        """Send up to the limit of chunks in flight; return True if the socket would block."""
        while True:
            if self._rest is None:
                if self.sent == self._total or self.sent - self.done == self._outstanding:
                    return False
                self._rest = memoryview(self._chunks[self.sent % len(self._chunks)])
                self.sent += 1
            try:
                size = self.socket.send(self._rest)
            except BlockingIOError:
                return True
            self._rest = self._rest[size:] if size < len(self._rest) else None

    def received(self, receiver: FlowReceiver, size: int) -> bool:
        """Count bytes of a receiver; return True if they completed the oldest chunk in flight."""
        before = receiver.got
        receiver.got = before + size
        if receiver.block != self._current or not before < self._goal <= receiver.got:
            return False
        self._waiting -= 1
        if self._waiting or self.finished:
            return False
        self.done += 1
        self._expect()
        return True

    def _expect(self) -> None:
        """Advance to the oldest chunk that a receiver has not yet received in full."""
        while self.done < self._total:
            turn, self._current = divmod(self.done, len(self._blocks))
            self._goal = goal = (turn + 1) * self._unit
            self._waiting = sum(each.got < goal for each in self._blocks[self._current])
            if self._waiting:
                return
            self.done += 1


def drive(flows: Sequence[Flow]) -> None:
    """Run flows until all are finished; raise BenchmarkError on a stall or a closed connection."""
    receivers = {each.socket.fileno(): each for flow in flows for each in flow.receivers}
    publishers = {flow.socket.fileno(): flow for flow in flows}
    buffer = bytearray(BUFFER_BYTES)
    with select.epoll(len(receivers) + len(publishers)) as poll:
        for number in receivers.keys() | publishers.keys():
            poll.register(number, select.EPOLLIN)

        def push(flow: Flow) -> None:
            waits = select.EPOLLOUT if flow.push() else 0
            if waits or flow in blocked:
                poll.modify(flow.socket.fileno(), select.EPOLLIN | waits)
                (blocked.add if waits else blocked.discard)(flow)

        blocked: set[Flow] = set()
        for flow in flows:
            push(flow)
        unfinished = len(flows)
        while unfinished:
            events = poll.poll(STALLED_S, MOST_EVENTS)
            if not events:
                raise BenchmarkError(f"nothing came for {STALLED_S:.0f} s: {_stalled(flows)}")
            for number, mask in events:
                if mask & select.EPOLLOUT:
                    push(publishers[number])
                if mask & ~select.EPOLLOUT:
                    receiver = receivers.get(number)
                    size = receiver.socket.recv_into(buffer) if receiver is not None else 0
                    if receiver is None or not size:
                        raise BenchmarkError(f"the broker closed a connection: {_stalled(flows)}")
                    flow = receiver.flow
                    if flow.received(receiver, size):
                        push(flow)
                        unfinished -= flow.finished


def take_late(receivers: Iterable[FlowReceiver]) -> None:
    """Count bytes that arrived after a flow was finished; there should be none."""
    for receiver in receivers:
        try:
            receiver.got += len(receiver.socket.recv(BUFFER_BYTES))
        except BlockingIOError:
            continue


def _stalled(flows: Sequence[Flow]) -> str:
    got = sum(receiver.got for flow in flows for receiver in flow.receivers)
    wanted = sum(flow.expected * len(flow.receivers) for flow in flows)
    return f"{got:,} of {wanted:,} bytes had come by then"
