"""Errors of proximities: what a node may not announce or raise."""

from nearcast.core.model.errors import ModelError
from nearcast.errors import NearcastError


class EventTypeError(ModelError):
    """An event type that is not valid, or an event that does not have its type."""


class AdmissionError(NearcastError):
    """An event that exceeds its share of the channel; nothing was sent."""

    def __init__(self, subject: str, share_bytes_s: float, wait_s: float) -> None:
        super().__init__(
            f"events of {subject!r} may use {share_bytes_s:g} bytes a second of the channel, and "
            f"have; raise it again in {wait_s:.2g} s, make it smaller, or give the type a larger "
            "share"
        )
        self.wait_s = wait_s
