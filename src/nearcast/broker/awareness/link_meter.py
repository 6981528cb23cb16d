"""The meter of one link: what its socket tells, on Linux with the kernel's own figures.

It reads and never writes to the network: measuring costs no byte of the link. Over TLS the bytes
are those of the records.
"""

import socket
import struct
import sys
from contextlib import suppress

from nearcast.broker.awareness.link_estimator import LinkEstimator, LinkFigures, LinkSample

_NOTSENT_LOWAT = 25
"""`TCP_NOTSENT_LOWAT` of Linux, which Python does not name."""
_INFO_BYTES = 168
_APP_LIMITED = struct.Struct("=7xB")
_ROUND_TRIP = struct.Struct("=68xII")
_ACKNOWLEDGED = struct.Struct("=120xQ")
_NOT_SENT = struct.Struct("=144xI")
_DELIVERY_RATE = struct.Struct("=160xQ")
_KNOWS_TCP = sys.platform == "linux"
_KILOBITS_PER_BYTE = 0.008


class LinkMeter:
    """Samples of a socket, and the figures that follow; `tcp` is None for what is no socket."""

    __slots__ = (
        "_blocked_at", "_blocked_s", "_tcp", "_unsent_bytes", "estimator", "is_asked",
        "written_bytes",
    )  # fmt: skip

    def __init__(self, tcp: socket.socket | None) -> None:
        self._tcp = tcp if _KNOWS_TCP else None
        self._unsent_bytes = 0
        self._blocked_at: float | None = None
        self._blocked_s = 0.0
        self.written_bytes = 0
        self.is_asked = False
        """The transport does not tell when the system takes no more; `has_room` does."""
        self.estimator = LinkEstimator()

    def limit(self, unsent_bytes: int) -> None:
        """Let the system take no more bytes while this many are not sent."""
        if self._tcp is not None and unsent_bytes != self._unsent_bytes:
            self._unsent_bytes = unsent_bytes
            with suppress(OSError):  # no TCP, or closed
                self._tcp.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, unsent_bytes)

    def block(self, now: float) -> None:
        """Note that the link takes no more."""
        if self._blocked_at is None:
            self._blocked_at = now

    def unblock(self, now: float) -> None:
        """Note that it takes more again."""
        if self._blocked_at is not None:
            self._blocked_s += now - self._blocked_at
            self._blocked_at = None

    @property
    def has_room(self) -> bool:
        """Whether the system would take more; True if it does not tell."""
        info = self._info()
        return info is None or _NOT_SENT.unpack_from(info)[0] < max(1, self._unsent_bytes)

    def figures(self, now: float, unsent_bytes: int) -> LinkFigures:
        """The figures for the time since the last call; `unsent_bytes` wait in our own buffer."""
        blocked_s = self._blocked_s
        if self._blocked_at is not None:
            blocked_s += now - self._blocked_at
        info = self._info()
        if info is None:
            sample = LinkSample(now, self.written_bytes - unsent_bytes, blocked_s)
        else:
            rtt_us, variance_us = _ROUND_TRIP.unpack_from(info)
            rate = None
            if not _APP_LIMITED.unpack_from(info)[0] & 1:
                rate = _DELIVERY_RATE.unpack_from(info)[0] * _KILOBITS_PER_BYTE
            acknowledged = _ACKNOWLEDGED.unpack_from(info)[0]
            sample = LinkSample(
                now, acknowledged, blocked_s, rtt_us / 1_000.0, variance_us / 1_000.0, rate
            )
        return self.estimator.take(sample)

    def _info(self) -> bytes | None:
        if self._tcp is None:
            return None
        try:
            info = self._tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        except OSError:
            return None
        return info if len(info) == _INFO_BYTES else None
