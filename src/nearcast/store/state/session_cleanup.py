"""Cleaning up after ended sessions, a bounded number of rows in each commit.

A pass goes once through the queues from the lowest number. A session that ends during a pass has
its later rows deleted by it, and is finished after the next pass.
"""

import sqlite3

PIECE = 4_000
"""The number of queue rows examined in one commit."""


class Sweep:
    """The position and the sessions of a pass; `settle` advances it once `step` is committed."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._this_pass = {number for (number,) in db.execute("SELECT session FROM ended")}
        self._next_pass: set[int] = set()
        self._reached = 0
        self._after_commit = 0

    @property
    def waiting(self) -> int:
        """The number of ended sessions that may still have rows."""
        return len(self._this_pass) + len(self._next_pass)

    def step(self, db: sqlite3.Connection) -> None:
        """Delete rows of ended sessions in the next piece, inside the caller's transaction."""
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
        """Advance to the position of the committed step, and add newly ended sessions."""
        if self._this_pass:
            self._reached = self._after_commit
            if not self._reached:
                self._this_pass, self._next_pass = self._next_pass, set()
        (self._next_pass if self._this_pass else self._this_pass).update(ended)
