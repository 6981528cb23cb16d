"""Handover: rows that the pipeline sends to a broker, as bytes and topics.

A task of a query stages its rows in chunks; the driver releases an epoch by naming the attempts
that count. A chunk is one MessagePack array of rows. Its size is limited so that a broker processes
it in one tick without delaying clients, and a row that exceeds a packet is split into parts.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, TypeVar
from urllib.parse import quote, unquote

import msgspec
from msgspec import Meta, Struct

from nearcast.errors import NearcastError

PUBLISHER = "$pipeline"
"""The publisher of the pipeline's results, and the user that connects to hand them over."""
PREFIX = "$pipeline/"
TOKEN_FILE = "pipeline.token"
"""In a broker's directory: the password of `$pipeline`."""
ADDRESS_FILE = "address.json"
"""In a broker's directory while it listens: its address."""

CHUNK_BYTES = 128 << 10
CHUNK_DELIVERIES = 1_000
"""The limits of a chunk; an event counts as one, a delivery as its recipients."""
LONGEST_QUERY = 200
LONGEST_ATTEMPT = 64
MOST_CHUNKS = 1_000_000
MOST_SUBJECTS = 10_000
"""The limit of one question of interest; the answer fits into a reason string."""

WHOLE, PART, LAST_PART = b"\0", b"\1", b"\2"
"""The first byte of a staged packet: a whole chunk, a part, or the last part."""

T = TypeVar("T")
Qos = Annotated[int, Meta(ge=0, le=2)]
Priority = Annotated[int, Meta(ge=1, le=1_000_000)]


class HandoverError(NearcastError, ValueError):
    """Bytes or a topic that are no valid handover."""


class RowRecipient(Struct, frozen=True, array_like=True, gc=False):
    """A session that gets a delivery, and the subscriptions that matched."""

    session: str
    subscriptions: tuple[str, ...]
    priority: Priority = 1
    replayed: bool = False
    """True if the event is older than the match."""


class EventRow(Struct, frozen=True, array_like=True, tag=0):
    """An event that the pipeline publishes at a broker, like any client."""

    id: str
    subject: str
    payload: bytes = b""
    publisher: str = PUBLISHER
    time: float | None = None
    lat: float | None = None
    lon: float | None = None
    qos: Qos = 1
    retain: bool = False
    valid_s: float | None = None
    object: str | None = None
    to: str | None = None
    """The target area, in its text or JSON form."""
    headers: bytes = b""
    """MQTT 5 properties of the message, as bytes."""
    about: tuple[str, ...] = ()
    """The nodes it is about; only subscribers that may see all of them get it."""

    @property
    def stays(self) -> bool:
        """True if later subscribers get it too."""
        return self.retain or self.valid_s is not None or self.object is not None


class RowUrgency(Struct, frozen=True, array_like=True, gc=False):
    """What the publisher of an event said of its urgency."""

    priority: Annotated[int, Meta(ge=1)] | None = None
    raises: bool = False
    """True if its priority may raise the one that follows from relevance."""
    deadline: float | None = None
    """When it is late, in seconds since 1970."""


class RowJudged(Struct, frozen=True, array_like=True):
    """Subscriptions with one filter and relevance, for which the same atoms were true and false.

    From that the broker decides on priorities again while the event waits.
    """

    filter: bytes
    """As JSON; empty for subscriptions without a filter."""
    levels: tuple[Annotated[int, Meta(ge=0)], ...]
    """The relevance of each atom of the filter."""
    true_bits: Annotated[int, Meta(ge=0)]
    """A bit for each atom that was true."""
    false_bits: Annotated[int, Meta(ge=0)]
    subscriptions: tuple[str, ...]


class DeliveryRow(Struct, frozen=True, array_like=True, tag=1):
    """An event decided on in the pipeline, and its recipients at a broker."""

    id: str
    subject: str
    payload: bytes
    publisher: str
    time: float
    recipients: tuple[RowRecipient, ...]
    session: str = ""
    """The session that published it, if it is not the publisher's own."""
    lat: float | None = None
    lon: float | None = None
    at_given: bool = False
    """True if the position was given with the event, so that every recipient may see it."""
    qos: Qos = 0
    retain: bool = False
    expires: float | None = None
    """When it expires, in seconds since 1970."""
    headers: bytes = b""
    urgency: RowUrgency | None = None
    judged: tuple[RowJudged, ...] = ()
    """Of the recipients that only subscriptions with relevance matched."""
    gathered: Annotated[int, Meta(ge=0)] = 0
    """How many events are gathered in the payload; 0: it is not an aggregate."""

    def to_only(self, recipients: tuple[RowRecipient, ...]) -> "DeliveryRow":
        """Return the row with some of its recipients."""
        judged = self.judged
        if judged:
            left = {name for each in recipients for name in each.subscriptions}
            judged = tuple(found for each in judged if (found := _of_some(each, left)))
        return msgspec.structs.replace(self, recipients=recipients, judged=judged)


def _of_some(judged: RowJudged, names: set[str]) -> RowJudged | None:
    some = tuple(name for name in judged.subscriptions if name in names)
    return msgspec.structs.replace(judged, subscriptions=some) if some else None


HandedRow = EventRow | DeliveryRow
Manifest = list[tuple[int, str, int]]
"""The content of a release: partition, attempt that counts, and its number of packets."""

_ENCODER = msgspec.msgpack.Encoder()
_ROWS = msgspec.msgpack.Decoder(list[HandedRow])
_MANIFEST = msgspec.msgpack.Decoder(Manifest)
_SUBJECTS: msgspec.msgpack.Decoder[list[str]] = msgspec.msgpack.Decoder(
    Annotated[list[str], Meta(max_length=MOST_SUBJECTS)]
)


class Staged(Struct, frozen=True):
    """The topic of one packet of rows."""

    query: str
    epoch: int
    partition: int
    attempt: str
    number: int

    @property
    def topic(self) -> str:
        """The topic to publish to."""
        where = f"{self.epoch}/{self.partition}/{self.attempt}/{self.number}"
        return f"{PREFIX}stage/{quote(self.query, safe='')}/{where}"


class Release(Struct, frozen=True):
    """The topic that releases an epoch."""

    query: str
    epoch: int

    @property
    def topic(self) -> str:
        """The topic to publish to."""
        return f"{PREFIX}release/{quote(self.query, safe='')}/{self.epoch}"


class Abort(Struct, frozen=True):
    """The topic that drops the staged rows of an epoch."""

    query: str
    epoch: int

    @property
    def topic(self) -> str:
        """The topic to publish to."""
        return f"{PREFIX}abort/{quote(self.query, safe='')}/{self.epoch}"


class Tick(Struct, frozen=True):
    """The topic that asks a broker to record the time."""

    @property
    def topic(self) -> str:
        """The topic to publish to."""
        return f"{PREFIX}tick"


class Interest(Struct, frozen=True):
    """The topic that asks a broker which subjects anybody there has subscribed to.

    The payload has the subjects; the reason string of the PUBACK has a 1 or a 0 for each.
    """

    @property
    def topic(self) -> str:
        """The topic to publish to."""
        return f"{PREFIX}interest"


def parse_topic(topic: str) -> Staged | Release | Abort | Tick | Interest:
    """Return the parsed topic; raises `HandoverError`."""
    levels = topic.removeprefix(PREFIX).split("/")
    if levels == ["tick"]:
        return Tick()
    if levels == ["interest"]:
        return Interest()
    query = unquote(levels[1]) if len(levels) > 1 else ""
    if not 0 < len(query) <= LONGEST_QUERY or "\0" in query:
        raise HandoverError(f"a query's name has 1 to {LONGEST_QUERY} characters")
    match levels:
        case ["stage", _, epoch, partition, attempt, number]:
            if not 0 < len(attempt) <= LONGEST_ATTEMPT:
                raise HandoverError(f"an attempt has 1 to {LONGEST_ATTEMPT} characters")
            return Staged(query, _count(epoch), _count(partition), attempt, _count(number))
        case ["release", _, epoch]:
            return Release(query, _count(epoch))
        case ["abort", _, epoch]:
            return Abort(query, _count(epoch))
    raise HandoverError(f"{topic!r} is no topic of the pipeline")


class Packer:
    """Packs rows into packets, in order, each of at most `largest` bytes."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._taken: list[bytes] = []
        self._size = self._deliveries = 0

    def add(self, row: HandedRow) -> list[bytes]:
        """Add a row, and return the packets that are full."""
        found: list[bytes] = []
        for part in _shared_out(row):
            data = _ENCODER.encode(part)
            count = len(part.recipients) if isinstance(part, DeliveryRow) else 1
            if self._size + len(data) > CHUNK_BYTES or self._deliveries + count > CHUNK_DELIVERIES:
                found += self.rest()
            self._taken.append(data)
            self._size += len(data)
            self._deliveries += count
        return found

    def rest(self) -> list[bytes]:
        """Return the remaining rows, in packets."""
        taken, self._taken = self._taken, []
        self._size = self._deliveries = 0
        return list(_cut(_array(taken), self._largest)) if taken else []


def packets(rows: Iterable[HandedRow], largest: int) -> Iterator[bytes]:
    """Yield rows in packets, in order, each of at most `largest` bytes."""
    packer = Packer(largest)
    for row in rows:
        yield from packer.add(row)
    yield from packer.rest()


def rows_in(chunk: bytes | memoryview) -> list[HandedRow]:
    """Return the rows of a chunk; raises `HandoverError`."""
    return _decoded(_ROWS, chunk, "these are no rows")


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return a manifest as bytes."""
    return _ENCODER.encode(manifest)


def manifest_in(data: bytes) -> Manifest:
    """Return the manifest of a release; raises `HandoverError`."""
    found = _decoded(_MANIFEST, data, "this is no manifest")
    if len({(partition, attempt) for partition, attempt, _ in found}) < len(found):
        raise HandoverError("this manifest names an attempt twice")
    for partition, attempt, count in found:
        if partition < 0 or not 0 <= count <= MOST_CHUNKS or len(attempt) > LONGEST_ATTEMPT:
            raise HandoverError(f"there is no partition {partition} with {count} packets")
    return found


def subjects_bytes(subjects: Sequence[str]) -> bytes:
    """Return the subjects of a question of interest as bytes."""
    return _ENCODER.encode(subjects)


def subjects_in(data: bytes) -> list[str]:
    """Return the subjects of a question of interest; raises `HandoverError`."""
    return _decoded(_SUBJECTS, data, "these are no subjects")


def interest_text(wanted: Iterable[bool]) -> str:
    """Return the answer to a question of interest."""
    return "".join("1" if each else "0" for each in wanted)


def interest_in(text: str, count: int) -> list[bool]:
    """Return the answer for each subject; raises `HandoverError`."""
    if len(text) != count or not set(text) <= {"0", "1"}:
        raise HandoverError(f"this is no answer for {count} subjects: {text[:100]!r}")
    return [each == "1" for each in text]


def _decoded(decoder: "msgspec.msgpack.Decoder[T]", data: bytes | memoryview, problem: str) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HandoverError(f"{problem}: {error}") from None


def _shared_out(row: HandedRow) -> Iterator[HandedRow]:
    """Yield a row, split if it has more recipients than a chunk may have."""
    if isinstance(row, EventRow) or len(row.recipients) <= CHUNK_DELIVERIES:
        yield row
        return
    for at in range(0, len(row.recipients), CHUNK_DELIVERIES):
        yield row.to_only(row.recipients[at : at + CHUNK_DELIVERIES])


def _array(items: list[bytes]) -> bytes:
    """Return encoded values as one MessagePack array."""
    count = len(items)
    head = b"\xdc" + count.to_bytes(2, "big") if count <= 0xFFFF else b"\xdd" + count.to_bytes(4)
    return b"".join((head, *items))


def _cut(chunk: bytes, largest: int) -> Iterator[bytes]:
    room = largest - 1
    if len(chunk) <= room:
        yield WHOLE + chunk
        return
    for at in range(0, len(chunk), room):
        mark = PART if at + room < len(chunk) else LAST_PART
        yield mark + chunk[at : at + room]


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise HandoverError(f"{text!r} is no number of an epoch, a partition or a packet")
    return int(text)
