"""Workspace: scratch and output memory of kernels, kept between batches."""

import numpy as np

from nearcast.core.matching.candidate_scan import MAX_CODES
from nearcast.core.matching.index.globe_grid import CLASSES
from nearcast.core.matching.memory import scratch_of
from nearcast.core.matching.tables import I32, I64, NONE

PAIRS_AN_EVENT = 32


class Workspace:
    """Scratch arrays behind one handle, enlarged when a kernel needs more."""

    def __init__(self) -> None:
        self._kinds = np.zeros(16, np.uint8)
        self._values = np.zeros(16)
        self._pattern_stamp = np.full(16, NONE, np.int64)
        self._ranges = np.zeros((1024, 2), np.int32)
        self._probes = np.zeros((512, 3), np.int64)
        self._codes = np.zeros((CLASSES + 2, MAX_CODES), np.int64)
        self._code_count = np.zeros(CLASSES + 2, np.int32)
        self._survivors = np.zeros(16_384, np.int32)
        self._candidates = np.zeros(16, np.int64)
        """By subscription: how often it was compared with an event, estimated from a sample."""
        self._out: I32 = np.zeros((3, 4096), np.int32)
        self._bind()

    def fit(self, events: int, slots: int, patterns: int, subscriptions: int) -> None:
        """Make room for these numbers of events, attributes, patterns and subscriptions."""
        if subscriptions > len(self._candidates):
            self._candidates = np.concatenate(
                [self._candidates, np.zeros(subscriptions - len(self._candidates), np.int64)]
            )
            self._bind()
        if slots > len(self._kinds):
            self._kinds = np.zeros(2 * slots, np.uint8)
            self._values = np.zeros(2 * slots)
            self._bind()
        if patterns > len(self._pattern_stamp):
            self._pattern_stamp = np.full(2 * patterns, NONE, np.int64)
            self._bind()
        if PAIRS_AN_EVENT * events > self._out.shape[1]:
            self._out = np.zeros((3, PAIRS_AN_EVENT * events), np.int32)
            self._bind()

    def fit_pairs(self, pairs: int) -> None:
        """Make room for so many pairs."""
        if pairs > self._out.shape[1]:
            self._out = np.zeros((3, 2 * pairs), np.int32)
            self._bind()

    def grow(self) -> None:
        """Double the arrays that a kernel ran out of."""
        self._ranges = np.zeros((2 * len(self._ranges), 2), np.int32)
        self._probes = np.zeros((2 * len(self._probes), 3), np.int64)
        self._survivors = np.zeros(2 * len(self._survivors), np.int32)
        self._out = np.zeros((3, 2 * self._out.shape[1]), np.int32)
        self._bind()

    def found(self, pairs: int) -> I32:
        """The pairs that a kernel wrote: events, subscriptions, priorities."""
        return self._out[:, :pairs].copy()

    def take_candidates(self) -> tuple[I32, I64]:
        """Return the subscriptions that were compared with events since the last call, how often.

        Estimated from a sample of the events.
        """
        numbers = np.flatnonzero(self._candidates)
        counts = self._candidates[numbers]
        self._candidates[numbers] = 0
        return numbers.astype(np.int32), counts

    def _bind(self) -> None:
        self.handle = scratch_of(
            self._kinds, self._values, self._pattern_stamp, self._ranges, self._probes,
            self._codes, self._code_count, self._survivors, self._candidates, *self._out,
        )  # fmt: skip
