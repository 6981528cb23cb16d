"""Followers of a log touch a file beside its segments repeatedly.

The broker rolls segments sooner while that file is fresh; no follower has to sign off.
"""

import time
from pathlib import Path

from nearcast.store.errors import StoreError, told

FILE = "_followed"
FRESH_S = 15.0


def follow(log: Path) -> None:
    """Mark a log as followed for the next few seconds; failures are ignored."""
    try:
        with told(log / FILE, "touching it"):
            (log / FILE).touch()
    except StoreError:
        # A reader without write permission still follows the log, with a little more delay.
        return


def is_followed(log: Path) -> bool:
    """True if a follower has touched the file recently."""
    try:
        touched = (log / FILE).stat().st_mtime
    except OSError:
        return False
    return abs(time.time() - touched) < FRESH_S
