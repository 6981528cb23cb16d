"""The queue of password checks: clients that succeeded recently have priority.

A check takes tens of milliseconds of a core, so wrong passwords from many addresses could delay all
other clients. The queue is bounded and ordered by rank: addresses and users that succeeded recently
precede unknown ones. If it is full, the last entry of the lowest rank is refused. Clients that
disconnect leave the queue. A few checks run at once, in threads.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec import Struct

from nearcast.broker.auth import Admitted, AuthRefusal, CredentialCheck
from nearcast.wire.mqtt import ReasonCode

MOST_WAITING = 500
MOST_REMEMBERED = 10_000
"""The limit of remembered users, and of addresses, that succeeded."""
LATELY_S = 24 * 3600.0
RANKS = 4
LOWEST_EACH = 4
"""One in this many checks is of the lowest rank, so that it does not starve."""
BUSY = AuthRefusal(
    ReasonCode.SERVER_BUSY, "too many passwords wait to be checked; try again in a while"
)
GONE = AuthRefusal(ReasonCode.SERVER_BUSY, "the client hung up before its password was checked")

CheckCallback = Callable[[Admitted | AuthRefusal], None]


class PasswordQueueStatistics(Struct, frozen=True):
    """Counts of waiting, refused and abandoned checks."""

    waiting: int
    refused: int
    abandoned: int


class _QueuedCheck(Struct, frozen=True):
    check: CredentialCheck
    done: CheckCallback
    is_gone: Callable[[], bool]


class PasswordQueue:
    """Runs slow credential checks; to be used from one event loop."""

    def __init__(self, now: Callable[[], float], threads: int = 0) -> None:
        self._now = now
        self._threads = threads or max(2, min(4, os.cpu_count() or 1))
        self._pool = ThreadPoolExecutor(self._threads, "nearcast-passwords")
        self._ranks: list[OrderedDict[Hashable, _QueuedCheck]] = [
            OrderedDict() for _ in range(RANKS)
        ]
        self._running = 0
        self._started = 0
        self._refused = self._abandoned = 0
        self._stopped = False
        self._users: OrderedDict[str, float] = OrderedDict()
        self._addresses: OrderedDict[str, float] = OrderedDict()

    def check(
        self,
        who: Hashable,
        check: CredentialCheck,
        done: CheckCallback,
        is_gone: Callable[[], bool] = lambda: False,
    ) -> None:
        """Queue a password check, and pass the result to `done`.

        `is_gone` returns whether the client has disconnected.
        """
        if self._stopped:
            done(BUSY)
            return
        rank = self._rank(check)
        if len(self) >= MOST_WAITING:
            lowest = max(number for number, jobs in enumerate(self._ranks) if jobs)
            self._refused += 1
            if rank >= lowest:
                done(BUSY)
                return
            self._ranks[lowest].popitem()[1].done(BUSY)
        self._ranks[rank][who] = _QueuedCheck(check, done, is_gone)
        self._start()

    async def answer(self, check: CredentialCheck) -> Admitted | AuthRefusal:
        """Check a password and wait for the result; cancellation removes it from the queue."""
        found: asyncio.Future[Admitted | AuthRefusal] = asyncio.get_running_loop().create_future()
        self.check(found, check, partial(_answer, found))
        try:
            return await found
        finally:
            self.leave(found)

    def leave(self, who: Hashable) -> None:
        """Remove a waiting check, if its client disconnected."""
        for jobs in self._ranks:
            if jobs.pop(who, None) is not None:
                self._abandoned += 1

    def sweep(self) -> None:
        """Remove the checks of disconnected clients."""
        for jobs in self._ranks:
            for who in [who for who, job in jobs.items() if job.is_gone()]:
                self._abandon(jobs.pop(who))

    def _abandon(self, job: _QueuedCheck) -> None:
        self._abandoned += 1
        job.done(GONE)

    def remember(self, user: str | None, address: str) -> None:
        """Remember a user and an address that succeeded."""
        for known, name in ((self._users, user), (self._addresses, address)):
            if name is not None:
                known[name] = self._now()
                known.move_to_end(name)
                if len(known) > MOST_REMEMBERED:
                    known.popitem(last=False)

    def statistics(self) -> PasswordQueueStatistics:
        """Return the counts of waiting, refused and abandoned checks."""
        return PasswordQueueStatistics(len(self), self._refused, self._abandoned)

    def __len__(self) -> int:
        return sum(map(len, self._ranks))

    def stop(self) -> None:
        """Drop all waiting checks, and stop the threads; later ones are refused."""
        self._stopped = True
        for jobs in self._ranks:
            jobs.clear()
        self._pool.shutdown(wait=False)

    def _rank(self, check: CredentialCheck) -> int:
        """Return the rank of a check: 0 is first."""
        # A user name may be widely known; an address is harder to obtain.
        by_address = self._is_recent(self._addresses, check.address)
        by_user = self._is_recent(self._users, check.user)
        return (0 if by_address else 2) + (not by_user)

    def _is_recent(self, known: OrderedDict[str, float], name: str) -> bool:
        return self._now() - known.get(name, -LATELY_S) < LATELY_S

    def _start(self) -> None:
        """Start as many checks as may run at once."""
        loop = asyncio.get_running_loop()
        while self._running < self._threads and (job := self._next()) is not None:
            self._running += 1
            future = loop.run_in_executor(self._pool, job.check.run)
            future.add_done_callback(partial(self._ended, job))

    def _next(self) -> _QueuedCheck | None:
        while filled := [jobs for jobs in self._ranks if jobs]:
            is_turn = (self._started + 1) % LOWEST_EACH == 0
            job = filled[-1 if is_turn else 0].popitem(last=False)[1]
            if not job.is_gone():
                self._started += 1
                return job
            self._abandon(job)
        return None

    def _ended(self, job: _QueuedCheck, future: "asyncio.Future[Admitted | AuthRefusal]") -> None:
        self._running -= 1
        if future.cancelled():
            return
        error = future.exception()
        if error is not None:
            job.done(AuthRefusal(ReasonCode.SERVER_UNAVAILABLE, f"it cannot be checked: {error!r}"))
        else:
            answer = future.result()
            if isinstance(answer, Admitted):
                self.remember(answer.identity.user, job.check.address)
            job.done(answer)
        self._start()


def _answer(
    future: "asyncio.Future[Admitted | AuthRefusal]", answer: Admitted | AuthRefusal
) -> None:
    if not future.done():
        future.set_result(answer)
