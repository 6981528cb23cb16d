"""First start: the time from starting Python to the first match, with machine code cached."""

import subprocess
import sys
import time

PROGRAM = """
from nearcast.core.language import parse
from nearcast.core.matching.matcher import Matcher
from nearcast.core.model import Around, Event, MovingCircle, Position, Subscription
from nearcast.core.model.event_batch import EventBatch

matcher = Matcher()
matcher.add(Subscription("s", "ann", "city/#", parse("speed > 5"), Around("me", MovingCircle(500))))
matcher.move("ann", Position(53.35, -6.26))
event = Event("e", "city/bus", "bob", 0.0, {"speed": 9.0}, Position(53.351, -6.26), True)
assert len(matcher.match(EventBatch.of([event])).event) == 1
"""


def first_start_s(runs: int) -> float:
    """Wall seconds of a new process that adds one subscription and matches one event."""
    _run()  # fills the caches of machine code and of the file system
    return min(_run() for _ in range(runs))


def _run() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
    return time.perf_counter() - start
