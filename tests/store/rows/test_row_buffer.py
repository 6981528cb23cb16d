"""Rows as columns are the same as rows one by one."""

import copy
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nearcast.core.model.event import Event
from nearcast.core.model.event_run import EventRun
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import Forgot, Left, Moved, Published
from nearcast.core.model.record import Record
from nearcast.store import CorruptError, Row, RowBuffer, UpgradeError, record_row, rows_of
from nearcast.store.log.segments import to_arrow
from nearcast.store.rows.message_headers import columns_of
from nearcast.store.rows.rows import delivery_row
from nearcast.wire.mqtt import Properties, Publish, user_properties

BROKER = "dublin-1"
texts = st.sampled_from(("", "a", "city/bus", "Čapek", "😀"))
numbers = st.sampled_from((0.0, -0.0, 1.5, 1.7e9))
positions = st.none() | st.builds(Position, numbers, numbers)
pairs = st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
headers = st.none() | st.binary(max_size=3)
Step = tuple[Callable[[RowBuffer, int], None], Callable[[int], list[Row]]]
"""How a buffer takes rows from a seq on, and the same rows one by one."""


@st.composite
def events(draw: st.DrawFn) -> Step:
    payloads = draw(st.lists(st.binary(max_size=5), min_size=1, max_size=4))
    ids = [draw(texts) for _ in payloads]
    now, subject, publisher, time = draw(numbers), draw(texts), draw(texts), draw(numbers)
    at, qos, carried, raw = draw(positions), draw(st.integers(0, 2)), draw(pairs), draw(headers)

    def append(buffer: RowBuffer, seq: int) -> None:
        buffer.append_events(
            seq, now, ids, subject, publisher, time, at, payloads, qos, carried, raw
        )

    def event(id_: str, payload: bytes) -> Published:
        return Published(
            Event(id_, subject, publisher, time, position=at, payload=payload, qos=qos)
        )

    def rows(seq: int) -> list[Row]:
        return [
            replace(
                record_row(Record(seq + place, now, event(*each)), BROKER),
                properties=carried,
                headers=raw,
            )
            for place, each in enumerate(zip(ids, payloads, strict=True))
        ]

    return append, rows


@st.composite
def moves(draw: st.DrawFn) -> Step:
    nodes = draw(st.lists(texts, min_size=1, max_size=4))
    where, now = [draw(positions) for _ in nodes], draw(numbers)

    def rows(seq: int) -> list[Row]:
        return [
            record_row(Record(seq + place, now, Moved(node, at)), BROKER)
            for place, (node, at) in enumerate(zip(nodes, where, strict=True))
        ]

    return lambda buffer, seq: buffer.append_moves(seq, now, nodes, where), rows


@st.composite
def records(draw: st.DrawFn) -> Step:
    value = draw(
        st.builds(Moved, texts, positions)
        | st.builds(Left, texts)
        | st.builds(Forgot, texts)
        | st.tuples(texts, texts, texts, numbers).map(lambda of: Published(Event(*of, retain=True)))
    )
    now = draw(numbers)

    def append(buffer: RowBuffer, seq: int) -> None:
        buffer.append_record(Record(seq, now, value))

    return append, lambda seq: [record_row(Record(seq, now, value), BROKER)]


@st.composite
def runs(draw: st.DrawFn) -> Step:
    contents = draw(st.lists(st.binary(max_size=9), min_size=1, max_size=4))
    now = draw(st.floats(0, 1e9))
    run = EventRun(
        [f"{place}" for place in range(len(contents))], draw(texts), draw(texts), now,
        draw(positions), contents, draw(st.integers(0, 2)), draw(st.sampled_from(("", "ann~1"))),
        draw(st.sampled_from((b"", user_properties([("a", "b")]), b"\x01\x01"))),
        draw(st.sampled_from((None, now + 9.0))),
    )  # fmt: skip

    def rows(seq: int) -> list[Row]:
        return [record_row(Record(at, now, Published(e)), BROKER) for at, e in enumerate(run, seq)]

    return lambda buffer, seq: buffer.append_run(seq, now, run), rows


@st.composite
def deliveries(draw: st.DrawFn) -> Step:
    event = Event(draw(texts), draw(texts), "bus-7", draw(numbers))

    def row(seq: int) -> Row:
        return delivery_row(event, [("ann", ("1",), 3, False)], BROKER, seq, 5.0)

    return lambda buffer, seq: buffer.append(row(seq)), lambda seq: [row(seq)]


steps = st.lists(
    st.tuples(
        events() | moves() | records() | runs() | deliveries(), st.integers(1, 2), st.integers(0, 1)
    ),
    min_size=1,
    max_size=8,
)
"""What is appended, how often, and after how large a gap."""


def filled(given_: Sequence[tuple[Step, int, int]], first: int) -> tuple[RowBuffer, list[Row]]:
    buffer, rows, seq = RowBuffer(BROKER), [], first
    for (append, plain), times, gap in given_:
        seq += gap
        for _ in range(times):
            append(buffer, seq)
            rows += plain(seq)
            seq = rows[-1].seq + 1
    return buffer, rows


def exact(rows: Sequence[Row] | RowBuffer) -> list[str]:
    """Rows as text: -0.0 is not 0.0."""
    return [repr(row) for row in rows]


@given(steps, st.integers(1, 5))
def test_a_buffer_has_the_rows_that_were_appended(
    given_: list[tuple[Step, int, int]], first: int
) -> None:
    buffer, rows = filled(given_, first)
    assert exact(buffer) == exact(rows)
    assert len(buffer) == len(rows)
    assert (buffer.first_seq, buffer.last_seq) == (rows[0].seq, rows[-1].seq)
    assert buffer.size >= sum(len(row.payload or b"") for row in rows)


@given(steps)
def test_a_batch_of_arrow_has_the_rows_of_its_buffer(given_: list[tuple[Step, int, int]]) -> None:
    buffer, rows = filled(given_, 1)
    batch = to_arrow(buffer)
    batch.validate(full=True)
    assert exact(list(rows_of(batch))) == exact(rows)


@given(steps)
def test_a_packed_buffer_comes_back(given_: list[tuple[Step, int, int]]) -> None:
    buffer, rows = filled(given_, 1)
    found = RowBuffer.unpacked(buffer.packed(), BROKER)
    assert exact(found) == exact(rows)
    found.extend(buffer)
    assert exact(found) == exact(rows * 2)


@given(steps)
def test_rows_that_an_earlier_release_packed_come_back(
    given_: list[tuple[Step, int, int]],
) -> None:
    _, rows = filled(given_, 1)
    value = b"\1" + msgspec.msgpack.encode(rows)
    assert exact(RowBuffer.unpacked(value, BROKER)) == exact(rows)


@given(steps, steps)
def test_buffers_are_joined_and_stay_as_they_were(
    one: list[tuple[Step, int, int]], other: list[tuple[Step, int, int]]
) -> None:
    buffer, rows = filled(one, 1)
    more, more_rows = filled(other, buffer.last_seq + 1)
    size = buffer.size + more.size
    buffer.extend(more)
    assert exact(buffer) == exact([*rows, *more_rows])
    assert buffer.size == size
    assert exact(more) == exact(more_rows)


@given(steps, st.integers(0, 40))
def test_rows_since_a_seq_are_the_end_of_a_buffer(
    given_: list[tuple[Step, int, int]], seq: int
) -> None:
    buffer, rows = filled(given_, 3)
    before = copy.deepcopy(rows)
    assert exact(buffer.since(seq)) == exact([row for row in rows if row.seq >= seq])
    assert exact(buffer) == exact(before)


def test_messages_of_one_publisher_on_one_subject_are_one_run() -> None:
    buffer, now, at = RowBuffer(BROKER), 1.7e9, Position(53.3, -6.2)
    for seq in range(1, 100, 2):
        ids = (f"e{seq}", f"e{seq + 1}")
        buffer.append_events(seq, now, ids, "city/bus", "bus-7", now, at, (b"x", b"y"))
    assert buffer.counts == [100]


def test_packed_rows_of_a_later_release_are_refused() -> None:
    with pytest.raises(UpgradeError, match="rows"):
        RowBuffer.unpacked(b"\3", BROKER)


@pytest.mark.parametrize("value", [b"\1\xff", b"\2\x90", b"\2"])
def test_damaged_packed_rows_are_reported(value: bytes) -> None:
    with pytest.raises(CorruptError, match="rows"):
        RowBuffer.unpacked(value, BROKER)


def test_the_size_of_rows_counts_their_properties_and_headers() -> None:
    plain, large = (RowBuffer.of([row]) for row in (event_row(b""), event_row(LARGE)))
    assert large.size - plain.size > len(LARGE)
    assert RowBuffer.unpacked(large.packed(), BROKER).size >= large.size - len(large.data[0])
    run = RowBuffer(BROKER)
    pairs_, _ = columns_of(LARGE)
    run.append_events(1, 1.0, ["a", "b"], "s", "p", 1.0, None, [b"", b""], 0, pairs_)
    # Once for all rows of a run.
    assert len(LARGE) < run.size < 2 * len(LARGE)


def test_user_properties_of_any_length_are_kept_once() -> None:
    pairs_, raw = columns_of(LARGE)
    assert (user_properties(pairs_), raw) == (LARGE, None)
    with_type = Publish("x").with_(Properties(user_properties=pairs_, content_type="t"))
    assert columns_of(with_type.raw_properties) == (pairs_, with_type.raw_properties)


LARGE = user_properties([("ünïcode", "x" * 3_000), ("a", "b"), ("a", "y" * 60_000)])


def event_row(headers_: bytes) -> Row:
    event = Event("e", "s", "p", 1.0, headers=headers_)
    return record_row(Record(1, 1.0, Published(event)), BROKER)
