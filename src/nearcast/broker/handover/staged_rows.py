"""Staging: rows of the pipeline that are here and do nothing yet, and what was released of them.

Packets are staged under (query, epoch, partition, attempt, number) and kept by the store. Of each
query it is known which epoch was released last, and which packets of it are still to be handed
out: those are there until the commit that hands them out. What nobody will release is dropped:
other attempts and earlier epochs at a release, earlier epochs when a query goes on to the next.
"""

from collections import deque
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from nearcast.broker.durability.journal import Journal
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.store import Forgotten, Kept
from nearcast.wire.handover import PART, HandoverError, Manifest, Staged
from nearcast.wire.mqtt import ReasonCode

STAGED, RELEASES = "staged", "releases"
"""Where the store keeps packets of rows, and what was released of each query."""
MOST_BYTES = 256 << 20
"""Packets of rows that are staged or wait to be handed out; one more is refused."""
MOST_ATTEMPTS = 4
"""Of one partition of an epoch; then the first is dropped, as its task is long gone."""
MOST_QUERIES = 10_000
"""So many queries are remembered; then the one that has released nothing for longest goes."""
OVERHEAD_BYTES = 200

Attempts = dict[tuple[int, str], dict[int, bytes]]
"""Packets by their number, by partition and attempt."""


class Query:
    """What is known of one query of the pipeline."""

    __slots__ = ("epoch", "releasing", "staged")

    def __init__(self) -> None:
        self.epoch = -1
        """The last that was released."""
        self.staged: dict[int, Attempts] = {}
        self.releasing: list[tuple[int, Manifest]] = []
        """Epochs of which something is still to be handed out."""


class Chunk(Struct, frozen=True):
    """Rows that were released, and the packets in which they are kept."""

    query: str
    packets: tuple[Staged, ...]
    data: bytes


class _Kept(Struct, frozen=True, array_like=True):
    """What the store has of a query."""

    epoch: int
    releasing: list[tuple[int, Manifest]] = []


class StagedRows:
    """All that the pipeline has handed to a broker and clients have not got yet."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._queries: dict[str, Query] = {}
        self.ready: deque[Chunk] = deque()
        """What was released and is to be handed out, in order; `done` follows."""
        self._bytes = 0

    def is_released(self, query: str, epoch: int) -> bool:
        """Whether an epoch was released before."""
        known = self._queries.get(query)
        return known is not None and epoch <= known.epoch

    def has(self, staged: Staged) -> bool:
        """Whether a packet is staged."""
        query = self._queries.get(staged.query)
        attempts = {} if query is None else query.staged.get(staged.epoch, {})
        return staged.number in attempts.get((staged.partition, staged.attempt), ())

    def put(self, staged: Staged, data: bytes) -> None:
        """Stage a packet that is not; `RefusedError` if there is no room."""
        size = len(data) + OVERHEAD_BYTES
        self._make_room(staged.query, size)
        query = self._query(staged.query)
        attempts = query.staged.setdefault(staged.epoch, {})
        attempts.setdefault((staged.partition, staged.attempt), {})[staged.number] = data
        self._bytes += size
        self._journal.note(Kept(STAGED, _key(staged), data))
        # A query goes on to its next epoch when it is done with the one before.
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
        """Have chunks handed out, and drop all else of the epoch and those before."""
        query = self._query(name)
        attempts = query.staged.get(epoch, {})
        for partition, attempt, _ in manifest:
            attempts.pop((partition, attempt), None)
        for earlier in [each for each in query.staged if each <= epoch]:
            self.drop(name, earlier)
        query.epoch = epoch
        if chunks:
            query.releasing.append((epoch, manifest))
            self.ready += chunks
        self._keep(name, query)
        # The one that was released last is remembered longest.
        self._queries[name] = self._queries.pop(name)
        self._forget_queries()

    def drop(self, name: str, epoch: int) -> None:
        """Forget what was staged for an epoch and not released."""
        query = self._queries.get(name)
        if query is not None:
            for at, packets in query.staged.pop(epoch, {}).items():
                self._drop_attempt(name, epoch, at, packets)

    def done(self, chunk: Chunk) -> None:
        """A chunk is handed out."""
        for staged in chunk.packets:
            self._journal.note(Forgotten(STAGED, _key(staged)))
        self._bytes -= _size(chunk)
        if not any(each.query == chunk.query for each in self.ready):
            query = self._queries[chunk.query]
            query.releasing.clear()
            self._keep(chunk.query, query)

    # From the store

    def restore(self, space: str, key: str, value: bytes) -> None:
        """Take back what the store has; `resume` follows when all is there."""
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
        """Go on with the releases that were under way."""
        for name, query in self._queries.items():
            for epoch, manifest in query.releasing:
                attempts = query.staged.pop(epoch, {})
                self.ready += _chunks(name, epoch, manifest, attempts, some=True)

    def statistics(self) -> dict[str, int]:
        """How much there is."""
        return {
            "staged_bytes": self._bytes,
            "unreleased_chunks": len(self.ready),
            "pipeline_queries": len(self._queries),
        }

    def validate_state(self) -> None:
        """Assert what always holds."""
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
        """Drop what other queries staged and may have left behind, where too much is staged.

        One that still lives is refused its release, and stages again.
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
        """Forget queries of old that have nothing here."""
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
    """Yield the chunks that a manifest names; with `some` those of them that are still there."""
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
            if data[:1] != PART:
                yield Chunk(name, tuple(staged), b"".join(parts))
                staged, parts = [], []
        if staged:
            raise HandoverError(f"the last part of attempt {attempt} is not staged")


def _size(chunk: Chunk) -> int:
    # Every packet begins with a mark.
    return len(chunk.data) + len(chunk.packets) * (OVERHEAD_BYTES + 1)


def _key(staged: Staged) -> str:
    return f"{staged.query}\0{staged.epoch}\0{staged.partition}\0{staged.attempt}\0{staged.number}"
