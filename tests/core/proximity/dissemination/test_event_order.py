from random import Random

import pytest

from nearcast.core.proximity.dissemination.event_order import EventOrder
from nearcast.core.proximity.messages import EventMessage


def numbered(sequence: int, producer: str = "a") -> EventMessage:
    at = (53.35, -6.26)
    return EventMessage(
        1, producer, 1, sequence, sequence, "s", 0.0, at, 1.0, False, b"{}"
    )  # fmt: skip


def sequences(messages: list[EventMessage]) -> list[int]:
    return [message.sequence for message in messages]


def test_an_event_waits_for_an_earlier_one() -> None:
    order = EventOrder(0.5, first_waits=False, message_of=lambda message: message)
    assert sequences(order.offer(numbered(1), 0.0)) == [1]
    assert sequences(order.offer(numbered(3), 0.1)) == []
    assert order.wake_at == 0.6
    assert sequences(order.offer(numbered(2), 0.2)) == [2, 3]
    assert order.elapse(10.0) == []


def test_a_gap_is_given_up_and_what_was_missing_is_late() -> None:
    order = EventOrder(0.5, first_waits=False, message_of=lambda message: message)
    order.offer(numbered(1), 0.0)
    order.offer(numbered(3), 0.1)
    assert order.elapse(0.5) == []
    assert sequences(order.elapse(0.6)) == [3]
    assert order.offer(numbered(2), 0.7) == []
    assert order.late == 1


def test_the_first_event_waits_for_earlier_ones_that_may_be_recovered() -> None:
    order = EventOrder(0.5, first_waits=True, message_of=lambda message: message)
    assert order.offer(numbered(2), 0.0) == []
    assert sequences(order.offer(numbered(1), 0.3)) == [1, 2]


@pytest.mark.parametrize("seed", range(50))
def test_whatever_the_network_does_the_order_is_kept_and_what_is_in_time_is_delivered(
    seed: int,
) -> None:
    random = Random(seed)
    order = EventOrder(1.0, first_waits=False, message_of=lambda message: message)
    arrivals = sorted(
        (number * 0.3 + random.uniform(0.0, 2.0 if random.random() < 0.2 else 0.2), number)
        for number in range(1, 60)
        if random.random() > 0.1
    )
    found: list[int] = []
    for at, number in arrivals:
        found += sequences(order.elapse(at))
        found += sequences(order.offer(numbered(number), at))
    found += sequences(order.elapse(1e9)) + sequences(order.elapse(2e9))
    assert found == sorted(set(found))
    assert len(found) + order.late == len(arrivals)
