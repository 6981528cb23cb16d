"""Refusals of client requests."""

from nearcast.errors import NearcastError
from nearcast.wire.mqtt import ReasonCode

LONGEST_REASON = 1_000
"""In characters; it may quote client input, and must still fit into a packet."""


class RefusedError(NearcastError):
    """A refused client request with its reason; the connection stays open."""

    def __init__(self, reason: ReasonCode, why: str) -> None:
        super().__init__(reason, why)
        self.reason = reason
        self.why = why[:LONGEST_REASON]

    def __str__(self) -> str:
        return self.why
