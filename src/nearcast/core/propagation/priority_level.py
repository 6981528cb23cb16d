"""One priority level of a queue: earliest deadline first between flows, arrival order within one.

A flow is what must stay in order: the messages of one publisher on one topic with one QoS. It ranks
by its first message; messages without a deadline rank last, and ties go by arrival. Flows are told
apart only while a message with a deadline waits: without one, that order is the order of arrival.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, TypeVar

from nearcast.core.propagation.outbox import Message

M = TypeVar("M", bound=Message)
_SPARE_HEADS = 8
"""Outdated entries of a short heap that are not worth removing."""


class PriorityLevel(Generic[M]):
    """The waiting messages of one priority, by the number of their arrival."""

    __slots__ = ("_deadlines", "_flows", "_heads", "messages", "passed_bytes", "waiting_bytes")

    def __init__(self) -> None:
        self.messages: OrderedDict[int, M] = OrderedDict()
        """In the order of arrival."""
        self.waiting_bytes = 0
        self.passed_bytes = 0
        """How much of better levels has left since a message of this level left, or came."""
        self._deadlines = 0
        """The number of messages with a deadline."""
        self._flows: dict[Hashable, deque[int]] | None = None
        """Arrivals by flow; None if no message has a deadline."""
        self._heads: list[tuple[float, int]] = []
        """A heap of the deadline and arrival of the first of each flow, and of messages gone."""

    def __len__(self) -> int:
        return len(self.messages)

    def append(self, arrival: int, message: M) -> None:
        """Add a message that arrived after all others."""
        self.messages[arrival] = message
        self.waiting_bytes += message.size
        if message.deadline is not None:
            self._deadlines += 1
        if self._flows is not None:
            self._append_to_flow(arrival, message)
        elif self._deadlines:
            self._divide()

    def first(self) -> M:
        """The message that leaves next."""
        return self.messages[self._first_arrival()]

    def oldest(self) -> M:
        """The message that arrived first."""
        return self.messages[next(iter(self.messages))]

    def pop_first(self) -> M:
        """Remove the message that leaves next."""
        return self._pop(self._first_arrival())

    def pop_oldest(self) -> M:
        """Remove the message that arrived first."""
        return self._pop(next(iter(self.messages)))

    def remove(self, arrivals: Iterable[int]) -> None:
        """Remove messages at any places."""
        for arrival in arrivals:
            message = self.messages.pop(arrival)
            self.waiting_bytes -= message.size
            self._deadlines -= message.deadline is not None
        self._divide()

    def validate_state(self) -> None:
        """Assert the invariants."""
        messages = self.messages
        assert messages, "an empty level is removed"
        assert list(messages) == sorted(messages)
        assert self.waiting_bytes == sum(each.size for each in messages.values())
        assert self._deadlines == sum(m.deadline is not None for m in messages.values())
        assert (self._flows is None) == (not self._deadlines)
        if self._flows is not None:
            found: dict[Hashable, list[int]] = {}
            for arrival, message in messages.items():
                found.setdefault(message.flow, []).append(arrival)
            assert {flow: list(each) for flow, each in self._flows.items()} == found
            heads = {arrival for _, arrival in self._heads if arrival in messages}
            assert heads == {each[0] for each in found.values()}
            assert len(self._heads) <= 2 * len(self._flows) + _SPARE_HEADS

    def _first_arrival(self) -> int:
        heads, messages = self._heads, self.messages
        if self._flows is None:
            return next(iter(messages))
        while heads[0][1] not in messages:
            heappop(heads)
        return heads[0][1]

    def _pop(self, arrival: int) -> M:
        """Remove the first message of a flow."""
        message = self.messages.pop(arrival)
        self.waiting_bytes -= message.size
        self._deadlines -= message.deadline is not None
        flows = self._flows
        if flows is None:
            return message
        if not self._deadlines:
            self._divide()
            return message
        own = flows[message.flow]
        assert own[0] == arrival
        own.popleft()
        if own:
            heappush(self._heads, self._rank(own[0]))
        else:
            del flows[message.flow]
        if len(self._heads) > 2 * len(flows) + _SPARE_HEADS:
            self._rank_flows(flows)
        return message

    def _append_to_flow(self, arrival: int, message: M) -> None:
        assert self._flows is not None
        own = self._flows.get(message.flow)
        if own is None:
            self._flows[message.flow] = deque((arrival,))
            heappush(self._heads, self._rank(arrival))
        else:
            own.append(arrival)

    def _divide(self) -> None:
        """Divide the messages into flows, if any has a deadline."""
        self._flows, self._heads = None, []
        if not self._deadlines:
            return
        flows: dict[Hashable, deque[int]] = {}
        for arrival, message in self.messages.items():
            flows.setdefault(message.flow, deque()).append(arrival)
        self._flows = flows
        self._rank_flows(flows)

    def _rank_flows(self, flows: dict[Hashable, deque[int]]) -> None:
        self._heads = [self._rank(each[0]) for each in flows.values()]
        heapify(self._heads)

    def _rank(self, arrival: int) -> tuple[float, int]:
        deadline = self.messages[arrival].deadline
        return (inf if deadline is None else deadline), arrival
