"""Clearing up after sessions that have ended, a bounded piece in each commit.

A pass goes once through the queues from the lowest number. A session that ends during a pass is
also deleted by it from there on, and done with after the next.
"""

import sqlite3

PIECE = 4_000
"""So many rows of queues are looked at in one commit."""


class Sweep:
    """Where the pass is, and for whom; written by `step`, taken on by `settle` once committed."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._this_pass = {number for (number,) in db.execute("SELECT session FROM ended")}
        self._next_pass: set[int] = set()
        self._reached = 0
        self._after_commit = 0

    @property
    def waiting(self) -> int:
        """How many sessions may still have rows."""
        return len(self._this_pass) + len(self._next_pass)

    def step(self, db: sqlite3.Connection) -> None:
        """Delete what ended sessions left in the next piece, inside the caller's transaction."""
        if not self._this_pass:
            return
        (last,) = db.execute(
            "SELECT max(number) FROM "
            "(SELECT number FROM queue WHERE number > ? ORDER BY number LIMIT ?)",
            (self._reached, PIECE),
        ).fetchone()
        if last is None:
            db.executemany("DELETE FROM ended WHERE session = ?", [(n,) for n in self._this_pass])
        else:
            db.execute(
                "DELETE FROM queue WHERE number > ? AND number <= ? "
                "AND session IN (SELECT session FROM ended)",
                (self._reached, last),
            )
        self._after_commit = last or 0

    def settle(self, ended: set[int]) -> None:
        """Go on from where the committed step came to; these sessions have ended since."""
        if self._this_pass:
            self._reached = self._after_commit
            if not self._reached:
                self._this_pass, self._next_pass = self._next_pass, set()
        (self._next_pass if self._this_pass else self._this_pass).update(ended)
