"""Counting calls: a measure of work that is the same on every machine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class CallCounter:
    """How many functions were called, those in C among them."""

    def __init__(self) -> None:
        self.calls = 0

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        """Count an event of the profiler."""
        if event in ("call", "c_call"):
            self.calls += 1


@contextmanager
def counted_calls() -> Iterator[CallCounter]:
    """Count the calls inside."""
    counter = CallCounter()
    before = sys.getprofile()
    sys.setprofile(counter.note)
    try:
        yield counter
    finally:
        sys.setprofile(before)
