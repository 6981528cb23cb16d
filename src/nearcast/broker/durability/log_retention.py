"""Retention of the log: rows older than `log.keep_s` go, unless a pipeline still needs them.

A log that is followed loses only rows up to the follower's last snapshot; if that holds up rows
for long, the follower is asked for a new one. A follower that has been away for as long as rows are
kept holds up nothing any more: when it comes back, it asks this broker for a snapshot. On a disk
that fills up, rows that nobody needs go before their time, unless all are to be kept.
"""

from nearcast.store import Log, ask_pipeline, follower_of

AWAY_S = 3_600.0
"""The shortest time that a follower may be away."""
OVERDUE_S = 60.0
OVERDUE_PART = 0.1
"""A snapshot is asked for once rows are older than permitted by this time or part of it."""


class LogRetention:
    """Drops old rows of one log; `keep_s` of None or 0 keeps all."""

    def __init__(self, log: Log, keep_s: float | None) -> None:
        self._log = log
        self._keep_s = keep_s

    def drop(self, now: float) -> None:
        """Drop what is too old and not needed."""
        if not self._keep_s:
            return
        too_old = now - self._keep_s
        snapshot = self._needed_after()
        self._log.drop_older(too_old, snapshot)
        if snapshot is None:
            return
        overdue = too_old - max(OVERDUE_S, OVERDUE_PART * self._keep_s)
        held = [each for each in self._log.segments() if each.last_ingested < too_old]
        if held and held[0].last_ingested < overdue:
            ask_pipeline(self._log.directory, held[-1].last_seq)

    def reclaim(self, wanted_bytes: int, since: float) -> int:
        """Drop the oldest segments that nobody needs until so many bytes are free; return how many.

        Rows ingested after `since` stay: a restart of the broker reads them. If a pipeline needs
        some of the others, it is asked for a snapshot.
        """
        if not self._keep_s:
            return 0
        snapshot, freed, last = self._needed_after(), 0, None
        for segment in self._log.segments():
            if freed >= wanted_bytes or segment.last_ingested >= since:
                break
            if snapshot is not None and segment.last_seq > snapshot:
                ask_pipeline(self._log.directory, segment.last_seq)
                break
            freed += segment.bytes
            last = segment.last
        if last is not None:
            self._log.drop_before(last + 1)
        return freed

    def _needed_after(self) -> int | None:
        """Return the row after which a pipeline needs all rows; None if none follows the log."""
        follower = follower_of(self._log.directory)
        if follower is None or follower.away_s > max(self._keep_s or 0.0, AWAY_S):
            return None
        return follower.snapshot
