"""Reasons for dropped messages."""


class LossReason:
    """Why messages for a session are dropped, as its client is told."""

    FULL = "its queue was full (limits.queued, limits.queued_bytes)"
    SHARED = "too much is queued for all sessions or this user (limits.all_queued_bytes)"
    TOO_LARGE = "they are larger than the maximum packet size of the client"
    MEMORY = "the broker was short of memory (limits.memory)"
