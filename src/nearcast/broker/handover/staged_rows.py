"""Staging: rows of the pipeline without effect yet, and which of them were released.

Packets are staged under (query, epoch, partition, attempt, number) and stored. For each query the
last released epoch is known, and which of its packets are still to be delivered; these are stored
until the commit that delivers them. Packets that will not be released are dropped: other attempts
and earlier epochs at a release, earlier epochs when a query starts the next.
"""

from collections import deque
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from nearcast.broker.durability.journal import Journal
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.store import Forgotten, Kept
from nearcast.wire.handover import LAST_PART, PART, HandoverError, Manifest, Staged
from nearcast.wire.mqtt import ReasonCode

STAGED, RELEASES = "staged", "releases"
"""Spaces of the store for packets of rows, and for the release state of each query."""
MOST_BYTES = 256 << 20
"""The limit for packets that are staged or wait for delivery; beyond it they are refused."""
MOST_ATTEMPTS = 4
"""The limit per partition of an epoch; beyond it the oldest is dropped, as its task is over."""
MOST_QUERIES = 10_000
"""The limit of known queries; beyond it the idle one with the oldest release is dropped."""
OVERHEAD_BYTES = 200

Attempts = dict[tuple[int, str], dict[int, bytes]]
"""Packets by number, by partition and attempt."""


class Query:
    """The state of one pipeline query."""

    __slots__ = ("epoch", "releasing", "staged")

    def __init__(self) -> None:
        self.epoch = -1
        """The last released epoch."""
        self.staged: dict[int, Attempts] = {}
        self.releasing: list[tuple[int, Manifest]] = []
        """Epochs with packets still to be delivered."""


class Chunk(Struct, frozen=True):
    """Released rows, and the packets that they are stored in."""

    query: str
    packets: tuple[Staged, ...]
    data: bytes


class _Kept(Struct, frozen=True, array_like=True):
    """The stored state of a query."""

    epoch: int
    releasing: list[tuple[int, Manifest]] = []


class StagedRows:
    """All rows of the pipeline that are not delivered yet."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._queries: dict[str, Query] = {}
        self.ready: deque[Chunk] = deque()
        """Released chunks to be delivered, in order; `done` follows."""
        self._bytes = 0

    def is_released(self, query: str, epoch: int) -> bool:
        """Whether an epoch was already released."""
        known = self._queries.get(query)
        return known is not None and epoch <= known.epoch

    def has(self, staged: Staged) -> bool:
        """Whether a packet is staged."""
        query = self._queries.get(staged.query)
        attempts = {} if query is None else query.staged.get(staged.epoch, {})
        return staged.number in attempts.get((staged.partition, staged.attempt), ())

    def put(self, staged: Staged, data: bytes) -> None:
        """Stage a new packet; raises `RefusedError` if there is no room."""
        size = len(data) + OVERHEAD_BYTES
        self._make_room(staged.query, size)
        query = self._query(staged.query)
        attempts = query.staged.setdefault(staged.epoch, {})
        attempts.setdefault((staged.partition, staged.attempt), {})[staged.number] = data
        self._bytes += size
        self._journal.note(Kept(STAGED, _key(staged), data))
        # A query starts its next epoch when the previous one is finished.
        for earlier in [epoch for epoch in query.staged if epoch < staged.epoch]:
            self.drop(staged.query, earlier)
        own = [at for at in attempts if at[0] == staged.partition]
        for at in own[:-MOST_ATTEMPTS]:
            self._drop_attempt(staged.query, staged.epoch, at, attempts.pop(at))

    def find(self, name: str, epoch: int, manifest: Manifest) -> list[Chunk]:
        """Return the chunks that a manifest names, or raise `HandoverError` if one is missing."""
        query = self._queries.get(name)
        attempts = {} if query is None else query.staged.get(epoch, {})
        return list(_chunks(name, epoch, manifest, attempts))

    def release(self, name: str, epoch: int, manifest: Manifest, chunks: list[Chunk]) -> None:
        """Queue chunks for delivery; drop the rest of this epoch and all earlier ones."""
        query = self._query(name)
        attempts = query.staged.get(epoch, {})
        for partition, attempt, count in manifest:
            packets = attempts.pop((partition, attempt), {})
            surplus = {number: data for number, data in packets.items() if number >= count}
            self._drop_attempt(name, epoch, (partition, attempt), surplus)
        for earlier in [each for each in query.staged if each <= epoch]:
            self.drop(name, earlier)
        query.epoch = epoch
        if chunks:
            query.releasing.append((epoch, manifest))
            self.ready += chunks
        self._keep(name, query)
        # Keep the dictionary in order of the last release.
        self._queries[name] = self._queries.pop(name)
        self._forget_queries()

    def drop(self, name: str, epoch: int) -> None:
        """Drop the staged packets of an epoch that were not released."""
        query = self._queries.get(name)
        if query is not None:
            for at, packets in query.staged.pop(epoch, {}).items():
                self._drop_attempt(name, epoch, at, packets)

    def done(self, chunk: Chunk) -> None:
        """Note that a chunk was delivered."""
        for staged in chunk.packets:
            self._journal.note(Forgotten(STAGED, _key(staged)))
        self._bytes -= _size(chunk)
        if not any(each.query == chunk.query for each in self.ready):
            query = self._queries[chunk.query]
            query.releasing.clear()
            self._keep(chunk.query, query)

    # From the store

    def restore(self, space: str, key: str, value: bytes) -> None:
        """Restore an entry of the store; `resume` follows after the last one."""
        if space == RELEASES:
            kept = msgspec.msgpack.decode(value, type=_Kept)
            query = self._query(key)
            query.epoch, query.releasing = kept.epoch, kept.releasing
            return
        name, epoch, partition, attempt, number = key.split("\0")
        attempts = self._query(name).staged.setdefault(int(epoch), {})
        attempts.setdefault((int(partition), attempt), {})[int(number)] = value
        self._bytes += len(value) + OVERHEAD_BYTES

    def resume(self) -> None:
        """Continue the releases that were in progress."""
        for name, query in self._queries.items():
            for epoch, manifest in query.releasing:
                attempts = query.staged.pop(epoch, {})
                self.ready += _chunks(name, epoch, manifest, attempts, some=True)

    def statistics(self) -> dict[str, int]:
        """Size and counts of the staged rows."""
        return {
            "staged_bytes": self._bytes,
            "unreleased_chunks": len(self.ready),
            "pipeline_queries": len(self._queries),
        }

    def validate_state(self) -> None:
        """Assert the invariants."""
        size = 0
        for query in self._queries.values():
            for epoch, attempts in query.staged.items():
                assert epoch > query.epoch, "what was released is not staged any more"
                for packets in attempts.values():
                    size += sum(len(data) + OVERHEAD_BYTES for data in packets.values())
        for chunk in self.ready:
            size += _size(chunk)
            assert self._queries[chunk.query].releasing
        assert size == self._bytes, f"{size} bytes are staged, and {self._bytes} were counted"

    def _query(self, name: str) -> Query:
        query = self._queries.get(name)
        if query is None:
            query = self._queries[name] = Query()
        return query

    def _keep(self, name: str, query: Query) -> None:
        value = msgspec.msgpack.encode(_Kept(query.epoch, query.releasing))
        self._journal.note(Kept(RELEASES, name, value))

    def _make_room(self, name: str, size: int) -> None:
        """Drop staged packets of other queries, possibly abandoned, if the limit is exceeded.

        A query that is still active gets its release refused, and stages again.
        """
        for other, query in self._queries.items():
            if self._bytes + size <= MOST_BYTES:
                return
            if other != name:
                for epoch in list(query.staged):
                    self.drop(other, epoch)
        if self._bytes + size > MOST_BYTES:
            why = f"{self._bytes} bytes of rows are staged; at most {MOST_BYTES} are taken"
            raise RefusedError(ReasonCode.QUOTA_EXCEEDED, why)

    def _forget_queries(self) -> None:
        """Drop the oldest idle queries above the limit."""
        surplus = len(self._queries) - MOST_QUERIES
        if surplus <= 0:
            return
        idle = [n for n, q in self._queries.items() if not q.staged and not q.releasing]
        for name in idle[:surplus]:
            del self._queries[name]
            self._journal.note(Forgotten(RELEASES, name))

    def _drop_attempt(
        self, name: str, epoch: int, at: tuple[int, str], packets: dict[int, bytes]
    ) -> None:
        for number, data in packets.items():
            self._bytes -= len(data) + OVERHEAD_BYTES
            self._journal.note(Forgotten(STAGED, _key(Staged(name, epoch, *at, number))))


def _chunks(
    name: str, epoch: int, manifest: Manifest, attempts: Attempts, *, some: bool = False
) -> Iterator[Chunk]:
    """Yield the chunks that a manifest names; with `some` only those still staged."""
    for partition, attempt, count in manifest:
        packets = attempts.get((partition, attempt), {})
        staged: list[Staged] = []
        parts: list[bytes] = []
        for number in range(count):
            data = packets.get(number)
            if data is None:
                if some:
                    continue
                raise HandoverError(
                    f"packet {number} of attempt {attempt} at partition {partition} of epoch "
                    f"{epoch} is not staged"
                )
            staged.append(Staged(name, epoch, partition, attempt, number))
            parts.append(data[1:])
            if data[:1] == LAST_PART and len(staged) == 1:
                raise HandoverError(f"the parts before packet {number} are not staged")
            if data[:1] != PART:
                yield Chunk(name, tuple(staged), b"".join(parts))
                staged, parts = [], []
        if staged:
            raise HandoverError(f"the last part of attempt {attempt} is not staged")


def _size(chunk: Chunk) -> int:
    # Every packet starts with a one-byte mark.
    return len(chunk.data) + len(chunk.packets) * (OVERHEAD_BYTES + 1)


def _key(staged: Staged) -> str:
    return f"{staged.query}\0{staged.epoch}\0{staged.partition}\0{staged.attempt}\0{staged.number}"
