"""An outbox beside a plain list: bounds, order, expiry, pacing, withdrawals."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import Struct

from nearcast.core.propagation.outbox import Outbox


class Waiting(Struct, eq=False):
    """A message with nothing but what an outbox asks for."""

    size: int = 10
    qos: int = 0
    expires_at: float | None = None
    live_key: str | None = None
    was_sent: bool = False


class Bounds(Struct, frozen=True):
    """Small enough to be reached."""

    queued: int = 5
    queued_bytes: int = 100


BOUNDS = Bounds()
MESSAGES = st.builds(
    Waiting,
    size=st.sampled_from([10, 20, 60]),
    qos=st.integers(0, 2),
    expires_at=st.none() | st.floats(0.0, 20.0),
    live_key=st.sampled_from([None, "fire", "flood"]),
)


class OutboxAndList(RuleBasedStateMachine):
    """The reference is a list; every rule says in a line or two what has to happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.outbox: Outbox[Waiting] = Outbox()
        self.expected: list[Waiting] = []
        self.in_flight: list[Waiting] = []
        self.now = 0.0

    @rule(message=MESSAGES)
    def put(self, message: Waiting) -> None:
        size = sum(each.size for each in [*self.expected, message])
        fits = len(self.expected) < BOUNDS.queued and size <= BOUNDS.queued_bytes
        assert self.outbox.put(message, BOUNDS) is fits
        self.expected += [message] * fits

    @rule(message=MESSAGES)
    def restore(self, message: Waiting) -> None:
        self.outbox.restore(message)
        self.expected.append(message)

    @rule(room=st.integers(-1, 3), allowance=st.none() | st.integers(-10, 70))
    def take(self, room: int, allowance: int | None) -> None:
        due: list[Waiting] = []
        for each in self.expected:
            paced = allowance is not None and sum(m.size for m in due) >= allowance
            if paced or (each.qos and sum(m.qos > 0 for m in due) >= room):
                break
            due.append(each)
        assert self.outbox.ready(room, allowance) == len(due)
        sent, expired = self.outbox.take(self.now, room, allowance)
        assert expired == [
            m
            for m in due
            if not m.was_sent and m.expires_at is not None and m.expires_at <= self.now
        ]
        assert sent == [each for each in due if each not in expired]
        self.expected = self.expected[len(due) :]
        self.in_flight += [each for each in sent if each.qos]

    @rule(kept=st.integers(0, 3))
    def put_back(self, kept: int) -> None:
        """The recipient returns, and accepts fewer at once."""
        back, self.in_flight = self.in_flight[kept:], self.in_flight[:kept]
        for each in back:
            each.was_sent = True
        self.outbox.put_back(back)
        self.expected = back + self.expected

    @rule(qos=st.integers(0, 2))
    def drop(self, qos: int) -> None:
        gone = self.outbox.drop(lambda each: each.qos == qos)
        assert gone == [each for each in self.expected if each.qos == qos]
        self.expected = [each for each in self.expected if each not in gone]

    @rule(key=st.sampled_from(["fire", "flood"]), ready=st.integers(0, 3))
    def withdraw(self, key: str, ready: int) -> None:
        gone = self.outbox.withdraw(key, ready)
        assert gone == [m for m in self.expected[ready:] if m.live_key == key and not m.was_sent]
        self.expected = [each for each in self.expected if each not in gone]

    @rule(seconds=st.floats(0.0, 10.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def holds(self) -> None:
        self.outbox.validate_state()
        size = sum(each.size for each in self.expected)
        assert self.outbox.statistics() == {
            "waiting": len(self.expected),
            "waiting_bytes": size,
        }
        assert len(self.outbox) == len(self.expected)
        half_full = 2 * len(self.expected) > BOUNDS.queued or 2 * size > BOUNDS.queued_bytes
        assert self.outbox.has_room(BOUNDS) is not half_full

    def teardown(self) -> None:
        """What is left is there, in order."""
        assert self.outbox.drop(lambda _: True) == self.expected


TestOutbox = OutboxAndList.TestCase


def test_a_message_that_exceeds_the_allowance_still_goes_but_nothing_after_it() -> None:
    outbox: Outbox[Waiting] = Outbox()
    first, second = Waiting(60), Waiting(10)
    outbox.put(first, BOUNDS)
    outbox.put(second, BOUNDS)

    assert outbox.take(0.0, 10, 0) == ([], [])
    assert outbox.take(0.0, 10, 1) == ([first], [])
    assert outbox.take(0.0, 10) == ([second], [])


def test_without_room_for_acknowledged_messages_those_behind_wait_too() -> None:
    outbox: Outbox[Waiting] = Outbox()
    before, confirmed, behind = Waiting(), Waiting(qos=1), Waiting()
    for each in (before, confirmed, behind):
        outbox.put(each, BOUNDS)

    assert outbox.take(0.0, 0) == ([before], [])
    assert outbox.take(0.0, 1) == ([confirmed, behind], [])
