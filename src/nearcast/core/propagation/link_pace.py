"""Pacing: what waits for a thin link waits in its queue, where the urgent still goes first.

A recipient that is paced is written to in portions: the next one when the host says that the link
took the one before. A portion is what the link carries in `PORTION_S`, so that not more than about
one message is beyond the reach of priorities. The host asks how large its own buffers should be.
"""

PORTION_S = 0.02
LEAST_BYTES, MOST_BYTES = 4_096, 262_144
UNKNOWN_BYTES = 16_384
"""A portion for a link that was never the bottleneck so far."""
FAST_KBPS = 20_000.0
"""A link that was measured below this is thin: nothing bypasses its queue."""
THIN_UNSENT_BYTES, FAST_UNSENT_BYTES = 2_048, 16_384
_BYTES_PER_KBPS = 125.0


class LinkPace:
    """The pace of one recipient's link."""

    __slots__ = ("is_writing", "portion_bytes", "throughput_kbps", "timed_at", "timed_id", "wrote")

    def __init__(self) -> None:
        self.throughput_kbps: float | None = None
        """What it carries, as last measured while it was the bottleneck."""
        self.portion_bytes = UNKNOWN_BYTES
        """After so many bytes the host must have written them before more follow."""
        self.is_writing = False
        """A portion was given to the host, and not written yet."""
        self.wrote = False
        """Something was written since the link was last measured."""
        self.timed_id = 0
        """The packet id of the message whose acknowledgement is timed; 0: none."""
        self.timed_at = 0.0

    @property
    def is_thin(self) -> bool:
        """Whether the link was the bottleneck, and carried little."""
        return self.throughput_kbps is not None and self.throughput_kbps < FAST_KBPS

    @property
    def unsent_bytes(self) -> int:
        """How much the system may hold that was not sent to the network yet."""
        return THIN_UNSENT_BYTES if self.is_thin else FAST_UNSENT_BYTES

    def measured(self, throughput_kbps: float) -> None:
        """Take what the link carries now."""
        self.throughput_kbps = throughput_kbps
        carried = throughput_kbps * _BYTES_PER_KBPS * PORTION_S
        self.portion_bytes = int(min(max(carried, LEAST_BYTES), MOST_BYTES))

    def allowance(self, allowance: int | None) -> int:
        """How many bytes may be given to the host now; the last message may exceed it."""
        if self.is_writing:
            return 0
        return self.portion_bytes if allowance is None else min(allowance, self.portion_bytes)

    def sent(self, packet_id: int, now: float) -> None:
        """Time the acknowledgement of a message, one at a time."""
        if not self.timed_id:
            self.timed_id, self.timed_at = packet_id, now

    def acknowledged(self, packet_id: int, now: float) -> float | None:
        """The round trip of a message that was timed, in seconds; None for any other."""
        if packet_id != self.timed_id:
            return None
        self.timed_id = 0
        return now - self.timed_at
