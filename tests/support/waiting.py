"""Waiting for what other threads and processes do."""

import time
from collections.abc import Callable

WAIT_S = 240.0
"""How long something may take before a test fails: far longer than it does."""


def until(
    holds: Callable[[], bool], what: str, *, within_s: float = WAIT_S, every_s: float = 0.05
) -> None:
    """Return once something holds; it is looked at every so many seconds."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(every_s)
