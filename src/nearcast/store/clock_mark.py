"""The mark of a broker's clock: what its time was, relative to a clock that nobody can set.

Written when a broker starts and stops, and when its time has been corrected. A broker that starts
again before the machine does continues from it, whatever was done to the clock of the machine.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from nearcast.store.durable_files import write_whole
from nearcast.store.errors import told

NAME = "clock.json"


class ClockMark(Struct, frozen=True):
    """A broker's time, and how far it is ahead of the steady clock of one boot of the machine."""

    boot: str
    """The id of the boot; empty where the system has none."""
    ahead_s: float
    time: float


def read_clock_mark(directory: Path) -> ClockMark | None:
    """Return the mark in a broker's directory; None if there is none that can be read."""
    path = directory / NAME
    if not path.exists():
        return None
    try:
        with told(path, "reading it"):
            return msgspec.json.decode(path.read_bytes(), type=ClockMark)
    except msgspec.MsgspecError:
        # Without it the log still says what the time was at least.
        return None


def write_clock_mark(directory: Path, mark: ClockMark) -> None:
    """Replace the mark in a broker's directory; raises `StoreError`."""
    write_whole(directory / NAME, msgspec.json.encode(mark) + b"\n")
