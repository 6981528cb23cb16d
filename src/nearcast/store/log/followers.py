"""Who follows a log says so in a file beside its segments, again and again.

The broker rolls segments sooner while that file is fresh; nobody has to say goodbye.
"""

import time
from pathlib import Path

from nearcast.store.errors import StoreError, told

FILE = "_followed"
FRESH_S = 15.0


def follow(log: Path) -> None:
    """Say that somebody follows a log, for the next few seconds; where that cannot be, nothing."""
    try:
        with told(log / FILE, "touching it"):
            (log / FILE).touch()
    except StoreError:
        # Whoever may only read the log follows it all the same, a little later.
        return


def is_followed(log: Path) -> bool:
    """Whether somebody has said so lately."""
    try:
        touched = (log / FILE).stat().st_mtime
    except OSError:
        return False
    return abs(time.time() - touched) < FRESH_S
