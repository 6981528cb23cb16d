"""A plain twin of outboxes: a list of messages, sorted anew for every message that leaves."""

from math import inf

from msgspec import Struct


class Waiting(Struct, eq=False):
    """A message with nothing but what an outbox asks for."""

    size: int = 10
    qos: int = 0
    expires_at: float | None = None
    live_key: str | None = None
    was_sent: bool = False
    priority: int = 1
    deadline: float | None = None
    flow: str = ""
    queued_at: float = 0.0

    def reprioritise(self, priority: int) -> None:
        self.priority = priority


class Bounds(Struct, frozen=True):
    """Small enough to be reached."""

    queued: int = 5
    queued_bytes: int = 100


class PlainOutbox:
    """What waits, in the order of arrival; what is sent again comes first."""

    def __init__(self, share_bytes: int) -> None:
        self.share_bytes = share_bytes
        self.waiting: list[Waiting] = []
        self.passed: dict[int, int] = {}
        """By level: the bytes of better ones that left while it waited."""
        self.had_levels = False

    def put(self, message: Waiting, bounds: Bounds) -> list[Waiting]:
        """Return what is dropped for it, the least urgent first; perhaps itself alone."""
        queue = [each for each in self.waiting if not each.was_sent] + [message]
        queue.sort(key=lambda m: -inf if m.priority == -1 else -m.priority)
        gone: list[Waiting] = []
        while len(self.waiting) + 1 - len(gone) > bounds.queued or (
            sum(m.size for m in [*self.waiting, message]) - sum(m.size for m in gone)
            > bounds.queued_bytes
        ):
            if queue[0] is message:
                return [message]
            gone.append(queue.pop(0))
        self.add(message)
        self.remove(gone)
        return gone

    def add(self, message: Waiting) -> None:
        self.waiting.append(message)
        self.had_levels |= message.priority != 1

    def remove(self, gone: list[Waiting]) -> None:
        self.waiting = [each for each in self.waiting if each not in gone]
        left = {each.priority for each in self.waiting if not each.was_sent}
        self.passed = {p: count for p, count in self.passed.items() if p in left}

    def take(
        self, now: float, places: int, in_flight: int, lower: int, allowance: int | None
    ) -> tuple[list[Waiting], list[Waiting], list[Waiting]]:
        """Take one message after the other; return those to send, the expired and the late."""
        ready: list[Waiting] = []
        expired: list[Waiting] = []
        late: list[Waiting] = []
        while allowance is None or allowance > sum(each.size for each in ready):
            sent = [each for each in ready if each.qos]
            lower_now = lower + sum(each.priority != 1 for each in sent)
            first_now = in_flight - lower + sum(each.priority == 1 for each in sent)
            message = self.next(places, first_now, lower_now)
            if message is None:
                break
            if message.was_sent:
                ready.append(message)
            elif message.expires_at is not None and message.expires_at <= now:
                expired.append(message)
            elif not message.qos and message.deadline is not None and message.deadline < now:
                late.append(message)
            else:
                ready.append(message)
                for each in {m.priority for m in self.waiting if m.priority > message.priority}:
                    self.passed[each] = self.passed.get(each, 0) + message.size
                self.passed[message.priority] = 0
            self.remove([message])
        return ready, expired, late

    def next(self, places: int, first: int, lower: int) -> Waiting | None:
        """The message that leaves next, given how many of either kind are in flight."""
        if self.waiting and self.waiting[0].was_sent:
            head = self.waiting[0]
            return None if head.qos and first + lower >= places else head
        candidates = []
        for priority in sorted({m.priority for m in self.waiting if m.priority != -1}):
            level = [m for m in self.waiting if m.priority == priority]
            heads = list({m.flow: m for m in reversed(level)}.values())
            heads.sort(key=lambda m: (inf if m.deadline is None else m.deadline, level.index(m)))
            most = max(1, places - 1) if priority == 1 else max(1, places // 2)
            used = first if priority == 1 else lower
            is_full = first + lower >= places or (self.had_levels and used >= most)
            if not (heads[0].qos and is_full):
                is_due = self.passed.get(priority, 0) >= self.share_bytes
                candidates.append((not is_due, priority, heads[0]))
        return min(candidates, key=lambda each: each[:2])[2] if candidates else None
