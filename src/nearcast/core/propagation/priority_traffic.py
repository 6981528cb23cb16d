"""What the priority queues of a broker have in common: the guaranteed share, and counts."""

from collections import Counter

SHARE_BYTES = 65_536
"""So much of better priorities leaves before a waiting message of a lower one does."""


class PriorityTraffic:
    """The share of lower priorities, and what was sent, dropped and withheld, by priority."""

    __slots__ = ("dropped", "sent", "share_bytes", "withheld")

    def __init__(self, share_bytes: int = SHARE_BYTES) -> None:
        self.share_bytes = share_bytes
        self.sent: Counter[int] = Counter()
        self.dropped: Counter[int] = Counter()
        self.withheld = 0
        """How often a message was withheld, on arrival or while it waited."""
