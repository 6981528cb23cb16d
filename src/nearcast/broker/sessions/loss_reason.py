"""Reasons for dropped messages."""

from typing import ClassVar

_SEPARATOR = "\0"


class LossReason:
    """Why messages for a session are dropped, as its client is told."""

    FULL = "its queue was full (limits.queued, limits.queued_bytes)"
    SHARED = "too much is queued for all sessions or this user (limits.all_queued_bytes)"
    DEADLINE = "they could not be sent before their deadline (nc-deadline)"
    TOO_LARGE = "they are larger than the maximum packet size of the client"
    MEMORY = "the broker was short of memory (limits.memory)"

    WORDS: ClassVar = {FULL: "full", SHARED: "full", DEADLINE: "deadline"}
    """Reasons that are told with the priority of the messages, and the word for each."""

    @classmethod
    def key(cls, reason: str, priority: int) -> str:
        """Return the key of a sum: the reason, and the priority if the client is told it."""
        return f"{reason}{_SEPARATOR}{priority}" if reason in cls.WORDS else reason

    @staticmethod
    def parts(key: str) -> tuple[str, int]:
        """Return the reason and the priority of a sum; earlier releases stored the reason alone."""
        reason, _, priority = key.partition(_SEPARATOR)
        return reason, int(priority or 1)
