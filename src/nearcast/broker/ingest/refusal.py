"""Refusals: what a client asked for and does not get."""

from nearcast.errors import NearcastError
from nearcast.wire.mqtt import ReasonCode

LONGEST_REASON = 1_000
"""In characters: what a client wrote may be in it, and must not make it too long to be sent."""


class RefusedError(NearcastError):
    """What a client asked for and does not get, and why; the connection stays."""

    def __init__(self, reason: ReasonCode, why: str) -> None:
        super().__init__(reason, why)
        self.reason = reason
        self.why = why[:LONGEST_REASON]

    def __str__(self) -> str:
        return self.why
