"""Notices as they are recorded: a state that the broker tells on a topic of its own."""

from msgspec import Struct


class NoticeRecord(Struct, frozen=True, gc=False):
    """A state that changed, whoever may be told."""

    topic: str
    state: str
    node: str | None
    """Of whom it is told; None of all members of a relationship."""
    time: float
