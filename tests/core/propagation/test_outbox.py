"""Outboxes beside a plain list: bounds, order, shares, deadlines, pacing, withdrawals."""

from copy import deepcopy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nearcast.core.propagation.outbox import WITHHELD, Outbox, needs_levels
from nearcast.core.propagation.priority_outbox import PriorityOutbox
from tests.support.plain.plain_outbox import Bounds, PlainOutbox, Waiting

SHARE_BYTES = 50
MOST = Bounds(100, 10_000)
PLAIN_MESSAGES = st.builds(
    Waiting,
    size=st.sampled_from([10, 20, 60]),
    qos=st.integers(0, 2),
    expires_at=st.none() | st.floats(0.0, 20.0),
    live_key=st.sampled_from([None, "fire", "flood"]),
)
MESSAGES = st.builds(
    Waiting,
    size=st.sampled_from([10, 20, 60]),
    qos=st.sampled_from([0, 1, 1, 2]),
    expires_at=st.none() | st.floats(0.0, 20.0),
    live_key=st.sampled_from([None, "fire", "flood"]),
    priority=st.sampled_from([1, 2, 3, WITHHELD]),
    deadline=st.none() | st.sampled_from([1.0, 2.0, 8.0]),
    flow=st.sampled_from("abc"),
)


class OutboxAndList(RuleBasedStateMachine):
    """An outbox without levels; the reference decides the same for it."""

    messages = PLAIN_MESSAGES

    def __init__(self) -> None:
        super().__init__()
        self.outbox: Outbox[Waiting] | PriorityOutbox[Waiting] = Outbox()
        self.expected = PlainOutbox(SHARE_BYTES)
        self.in_flight: list[Waiting] = []
        self.bounds = Bounds()
        self.now = 0.0

    @initialize(bounds=st.sampled_from([Bounds(), Bounds(), MOST]))
    def begin(self, bounds: Bounds) -> None:
        self.bounds = bounds

    def grow(self) -> None:
        if isinstance(self.outbox, Outbox):
            self.outbox = PriorityOutbox(SHARE_BYTES, self.outbox.messages())

    @rule(data=st.data())
    def put(self, data: st.DataObject) -> None:
        message, bounds = data.draw(self.messages), self.bounds
        if needs_levels(message):
            self.grow()
        gone = self.expected.put(message, bounds)
        if self.outbox.put(message, bounds):
            assert gone == []
            return
        more = len(self.outbox) + 1 - bounds.queued
        size = self.outbox.waiting_bytes + message.size - bounds.queued_bytes
        dropped = self.outbox.make_room(message, more, size)
        if dropped is None:
            assert gone == [message]
        else:
            assert dropped == gone
            assert self.outbox.put(message, bounds)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        message = data.draw(self.messages)
        if needs_levels(message):
            self.grow()
        self.outbox.restore(message)
        self.expected.add(message)

    @rule(places=st.integers(0, 5), allowance=st.none() | st.integers(-10, 70))
    def take(self, places: int, allowance: int | None) -> None:
        lower = sum(each.priority != 1 for each in self.in_flight)
        window = places, len(self.in_flight), lower
        simulated = deepcopy(self.expected).take(float("-inf"), *window, allowance)[0]
        assert len(self.outbox.ready(*window, allowance)) == len(simulated)
        expected = self.expected.take(self.now, *window, allowance)
        taken: tuple[list[Waiting], list[Waiting], list[Waiting]] = [], [], []
        while True:
            ready, expired, late = self.outbox.take(self.now, *window, allowance)
            for part, more in zip(taken, (ready, expired, late), strict=True):
                part += more
            self.in_flight += [each for each in ready if each.qos]
            if not expired and not late:
                break
            # What was not sent leaves room for others.
            lower = sum(each.priority != 1 for each in self.in_flight)
            window = places, len(self.in_flight), lower
            allowance = None if allowance is None else allowance - sum(m.size for m in ready)
        assert taken == expected

    @rule(kept=st.integers(0, 3))
    def put_back(self, kept: int) -> None:
        """The recipient returns, and accepts fewer at once."""
        back, self.in_flight = self.in_flight[kept:], self.in_flight[:kept]
        for each in back:
            each.was_sent = True
        self.outbox.put_back(back)
        self.expected.waiting[:0] = back

    @rule(count=st.integers(1, 3))
    def acknowledge(self, count: int) -> None:
        del self.in_flight[:count]

    @rule(qos=st.integers(0, 2))
    def drop(self, qos: int) -> None:
        gone = self.outbox.drop(lambda each: each.qos == qos)
        assert gone == [each for each in self.expected.waiting if each.qos == qos]
        self.expected.remove(gone)

    @rule(key=st.sampled_from(["fire", "flood"]), places=st.integers(0, 3))
    def withdraw(self, key: str, places: int) -> None:
        ready = self.outbox.ready(places)
        gone = self.outbox.withdraw(key, ready)
        assert gone == [
            each
            for each in self.expected.waiting
            if each.live_key == key and not each.was_sent and each not in ready
        ]
        self.expected.remove(gone)

    @rule(seconds=st.floats(0.0, 5.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def holds(self) -> None:
        self.outbox.validate_state()
        expected, bounds = self.expected.waiting, self.bounds
        size = sum(each.size for each in expected)
        assert self.outbox.messages() == expected
        assert self.outbox.statistics() == {"waiting": len(expected), "waiting_bytes": size}
        assert len(self.outbox) == len(expected)
        counts = {p: count for p, (count, _) in self.outbox.by_priority().items()}
        assert counts == {
            p: sum(each.priority == p for each in expected) for p in {m.priority for m in expected}
        }
        unsent = [each for each in expected if each.priority != WITHHELD]
        half_full = 2 * len(unsent) > bounds.queued or (
            2 * sum(each.size for each in unsent) > bounds.queued_bytes
        )
        assert self.outbox.has_room(bounds) is not half_full
        is_full = len(unsent) >= bounds.queued or (
            sum(each.size for each in unsent) + 10 > bounds.queued_bytes
        )
        assert self.outbox.fits(Waiting(10), bounds) is not is_full


class PriorityOutboxAndList(OutboxAndList):
    """The same with priorities and deadlines; it gets levels when a message needs them."""

    messages = PLAIN_MESSAGES | MESSAGES

    @rule(priorities=st.lists(st.sampled_from([1, 2, 3, WITHHELD]), min_size=1, max_size=3))
    def reprioritise(self, priorities: list[int]) -> None:
        self.grow()
        assert isinstance(self.outbox, PriorityOutbox)
        unsent = [each for each in self.expected.waiting if not each.was_sent]
        wanted = {id(m): priorities[i % len(priorities)] for i, m in enumerate(unsent)}
        withheld = sum(
            each.priority != WITHHELD and wanted[id(each)] == WITHHELD for each in unsent
        )
        assert self.outbox.reprioritise(lambda each: wanted[id(each)]) == withheld
        assert [each.priority for each in unsent] == [wanted[id(each)] for each in unsent]
        self.expected.had_levels |= any(each.priority != 1 for each in unsent)
        self.expected.remove([])


TestOutbox = OutboxAndList.TestCase
TestPriorityOutbox = PriorityOutboxAndList.TestCase
TestPriorityOutbox.settings = settings(stateful_step_count=40, deadline=None)


def sent_by(outbox: PriorityOutbox[Waiting], places: int = 100) -> list[str]:
    """The flows of the messages that leave, in their order."""
    return [each.flow for each in outbox.take(0.0, places)[0]]


def test_a_message_that_exceeds_the_allowance_still_goes_but_nothing_after_it() -> None:
    first, second = Waiting(60), Waiting(10)
    for outbox in (Outbox[Waiting](), PriorityOutbox[Waiting](SHARE_BYTES)):
        outbox.put(first, MOST)
        outbox.put(second, MOST)

        assert outbox.take(0.0, 10, allowance=0)[0] == []
        assert outbox.take(0.0, 10, allowance=1)[0] == [first]
        assert outbox.take(0.0, 10)[0] == [second]


def test_without_room_for_acknowledged_messages_those_behind_wait_too() -> None:
    outbox: Outbox[Waiting] = Outbox()
    before, confirmed, behind = Waiting(), Waiting(qos=1), Waiting()
    for each in (before, confirmed, behind):
        outbox.put(each, MOST)

    assert outbox.take(0.0, 0)[0] == [before]
    assert outbox.take(0.0, 1)[0] == [confirmed, behind]


def test_a_lower_level_gets_its_share_after_so_many_bytes_of_better_ones() -> None:
    messages = [Waiting(flow="low", priority=3), Waiting(flow="middle", priority=2)]
    messages += [Waiting(30, flow="high")] * 6

    assert sent_by(PriorityOutbox(60, messages)) == [
        "high", "high", "middle", "low", "high", "high", "high", "high",
    ]  # fmt: skip


def test_a_flow_ranks_by_its_first_message_and_stays_in_order() -> None:
    messages = [
        Waiting(flow="none"),
        Waiting(flow="late first"),
        Waiting(flow="late first", deadline=1.0),
        Waiting(flow="soon", deadline=5.0),
    ]

    assert sent_by(PriorityOutbox(SHARE_BYTES, messages)) == [
        "soon", "none", "late first", "late first",
    ]  # fmt: skip


def test_levels_leave_places_in_flight_for_each_other() -> None:
    first = [Waiting(qos=1, flow="first") for _ in range(9)]
    lower = [Waiting(qos=1, flow="lower", priority=2) for _ in range(9)]

    assert sent_by(PriorityOutbox(SHARE_BYTES, first), 4) == ["first"] * 4
    assert sent_by(PriorityOutbox(SHARE_BYTES, lower), 4) == ["lower"] * 2
    assert sent_by(PriorityOutbox(9_000, first + lower), 4) == ["first"] * 3 + ["lower"]
    assert sent_by(PriorityOutbox(9_000, first + lower), 1) == ["first"]


def test_a_message_that_would_not_fit_anyway_takes_nothing_with_it() -> None:
    outbox: PriorityOutbox[Waiting] = PriorityOutbox(SHARE_BYTES)
    urgent, low = Waiting(60), Waiting(40, priority=2)
    outbox.put(urgent, Bounds())
    outbox.put(low, Bounds())

    assert outbox.make_room(Waiting(60, priority=2), 0, 60) is None
    assert outbox.make_room(Waiting(60), 0, 60) == [low, urgent]


def test_what_waits_for_long_costs_no_more_heads_than_flows() -> None:
    """Each message that is dropped for a new one leaves an outdated head behind."""
    outbox: PriorityOutbox[Waiting] = PriorityOutbox(SHARE_BYTES)
    for number in range(1_000):
        message = Waiting(deadline=float(-number))
        if len(outbox) == MOST.queued:
            outbox.make_room(message, 1, 0)
        assert outbox.put(message, MOST)
        outbox.validate_state()
