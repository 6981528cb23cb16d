"""Figures of a link, estimated from samples of its socket: pure, the time is in the samples.

Throughput is what was acknowledged per second while the link was the bottleneck: for most of the
time between two samples the socket took no more. Otherwise what went through is only a lower bound,
which can raise the figure but not lower it. An idle link has no figure.
"""

from collections import deque

from msgspec import Struct

BUSY_SHARE = 0.75
"""So much of the time a link must block to be the bottleneck."""
WEIGHT = 0.5
"""Of a new sample in a smoothed figure."""
HISTORY = 16
LEAST_BOUND_BYTES = 65_536
"""Less than this may have gone into buffers on the way, and says nothing of the link."""
_KILOBITS_PER_BYTE = 0.008
_ROUND_TRIP_WEIGHT, _VARIANCE_WEIGHT = 0.125, 0.25
"""As TCP weighs them (RFC 6298)."""


class LinkSample(Struct, frozen=True):
    """What a socket has told."""

    at: float
    taken_bytes: int
    """All bytes so far that the other side acknowledged or, if unknown, that the system took."""
    blocked_s: float
    """How long it took no more bytes so far, in all."""
    rtt_ms: float | None = None
    rtt_variance_ms: float | None = None
    delivery_rate_kbps: float | None = None


class LinkFigures(Struct, frozen=True):
    """What is known of a link now; a figure is None if nothing was measured."""

    throughput_kbps: float | None = None
    rtt_ms: float | None = None
    rtt_variance_ms: float | None = None
    delivery_rate_kbps: float | None = None
    """The system's own estimate, if the link was the bottleneck for it."""
    history: tuple[tuple[float, float], ...] = ()
    """The last measurements of throughput, unsmoothed: times and kb/s."""


class LinkEstimator:
    """The figures of one connection."""

    __slots__ = ("_before", "_history", "_rtt_s", "_throughput_kbps", "_variance_s")

    def __init__(self) -> None:
        self._before: LinkSample | None = None
        self._throughput_kbps: float | None = None
        self._rtt_s: float | None = None
        self._variance_s = 0.0
        self._history: deque[tuple[float, float]] = deque(maxlen=HISTORY)

    def acknowledged(self, took_s: float) -> None:
        """Take the time from a message to its acknowledgement, for systems that tell no more."""
        if self._rtt_s is None:
            self._rtt_s, self._variance_s = took_s, took_s / 2.0
            return
        off_s = abs(self._rtt_s - took_s)
        self._variance_s += _VARIANCE_WEIGHT * (off_s - self._variance_s)
        self._rtt_s += _ROUND_TRIP_WEIGHT * (took_s - self._rtt_s)

    def take(self, sample: LinkSample) -> LinkFigures:
        """Take a sample; return the figures for the time since the one before."""
        before, self._before = self._before, sample
        rtt_ms, variance_ms = sample.rtt_ms, sample.rtt_variance_ms
        if rtt_ms is None and self._rtt_s is not None:
            rtt_ms, variance_ms = 1_000.0 * self._rtt_s, 1_000.0 * self._variance_s
        throughput = None if before is None else self._throughput(before, sample)
        return LinkFigures(
            throughput, rtt_ms, variance_ms, sample.delivery_rate_kbps, tuple(self._history)
        )

    def _throughput(self, before: LinkSample, sample: LinkSample) -> float | None:
        passed_s = sample.at - before.at
        if passed_s <= 0.0:
            return None
        taken = sample.taken_bytes - before.taken_bytes
        rate, so_far = taken * _KILOBITS_PER_BYTE / passed_s, self._throughput_kbps
        if sample.blocked_s - before.blocked_s >= BUSY_SHARE * passed_s:
            self._history.append((sample.at, rate))
            found = rate if so_far is None else so_far + WEIGHT * (rate - so_far)
        elif so_far is not None and taken >= LEAST_BOUND_BYTES and rate > so_far:
            self._history.append((sample.at, rate))
            found = rate
        else:
            return None
        self._throughput_kbps = found
        return found
