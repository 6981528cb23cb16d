"""What is decided as columns is what is decided row by row: random lives, cut at random.

Each life is made by an engine step by step: bursts of plain events, and among them all that
bears on them: wishes that count, groups, sessions with several wishes, live events, targets,
announcements, rights, places, positions that grow old, repeated ids, rows that cannot be read,
and restarts.
"""

import pickle
import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from nearcast.core.model.inputs import (
    Published,
)
from nearcast.pipeline.decide import plain_events
from nearcast.pipeline.decide import player as playing
from nearcast.pipeline.decide.decisions import decided_batches
from nearcast.pipeline.decide.plain_events import PlainEvents, are_plain, stretches, windows
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.source.row_inputs import input_in
from nearcast.store import Row, batch_of, plain_event
from nearcast.store.rows.snapshot_rows import inputs_from, snapshot_rows
from nearcast.wire.mqtt import first_message_expiry
from tests.pipeline.decide.random_lives import Life, cut


def told(batches: Iterator[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(40))
def test_columns_are_decided_as_rows_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(seed, [seed % 3], monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 240))
def test_in_many_lives_columns_are_decided_as_rows_are(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(seed, [0, 1, 2], monkeypatch)


def compare(seed: int, begun: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Decide a life both ways, and its end by players that have begun in some of three ways."""
    monkeypatch.setattr(plain_events, "LEAST", 3)
    for name in ("LEAST", "FIRST_AT_ONCE", "MOST_AT_ONCE"):
        monkeypatch.setattr(playing, name, 20)
    rows = Life(seed).live(120)
    draw = random.Random(f"cut {seed}")
    wanted = [told(decided_batches("broker", part)) for part in Player("broker").decide(rows)]
    player = Player("broker")
    found = [
        told(decided_batches("broker", *parts)) for parts in player.decide_columns(cut(draw, rows))
    ]
    assert found == wanted
    assert player.seq == rows[-1].seq
    # The same by players that are written down in between, or only apply what came before.
    at = 20 * draw.randrange(1, len(rows) // 20)
    part = next(k for k in range(len(wanted)) if _seen(rows, k) >= at)
    before, after = rows[: _seen(rows, part)], rows[_seen(rows, part) :]
    for way in begun:
        each = Player("broker")
        if way == 0:
            for _ in each.decide_columns(cut(draw, before)):
                pass
            each = pickle.loads(pickle.dumps(each))
        elif way == 1:
            each.apply(before)
        else:
            each.apply_columns(cut(draw, before))
        assert each.seq == len(before)
        rows_in_force = list(snapshot_rows(each.in_force(), "broker"))
        restored = Player.restored("broker", each.seq, inputs_from(rows_in_force))
        again = each.decide_columns(cut(draw, after))
        assert [told(decided_batches("broker", *parts)) for parts in again] == wanted[part + 1 :]
        again = restored.decide_columns(cut(draw, after))
        found = [told(decided_batches("broker", *parts)) for parts in again]
        assert [*map(in_any_order, found)] == [*map(in_any_order, wanted[part + 1 :])]


def in_any_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Rows with their recipients in one order: theirs depends on the index."""
    return [row | {"recipients": sorted(map(repr, row["recipients"] or ()))} for row in rows]  # type: ignore[call-overload]


def _seen(rows: list[Row], part: int) -> int:
    """How many rows there are up to the end of a part."""
    sizes = [each.num_rows for each in windows([batch_of(rows)], lambda: playing.MOST_AT_ONCE)]
    return sum(sizes[: part + 1])


def test_columns_are_taken_where_they_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_events, "LEAST", 3)
    kinds = set()
    for seed in range(10):
        for parts in Player("broker").decide_columns([batch_of(Life(seed).live(120))]):
            kinds |= {type(sent.deliveries.events) for part in parts for sent in part.sent}
    assert plain_events.PlainEvents in kinds


@pytest.mark.parametrize("seed", range(6))
def test_the_more_copies_the_fewer_rows_at_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_events, "LEAST", 3)
    monkeypatch.setattr(playing, "LEAST", 4)
    monkeypatch.setattr(playing, "FIRST_AT_ONCE", 8)
    rows = Life(seed).live(200)

    def decided() -> tuple[list[int], list[object]]:
        sizes: list[int] = []
        found: list[object] = []
        player, before = Player("broker"), 0
        for parts in player.decide_columns([batch_of(rows)]):
            sizes.append(player.seq - before)
            before = player.seq
            # Of what is live there is a row only among those that are decided together.
            found += [row | {"seq": None} for row in told(decided_batches("broker", *parts))]
        return sizes, sorted(found, key=str)

    sizes, wanted = decided()
    assert sizes[0] <= 8
    assert max(sizes) > 8
    monkeypatch.setattr(playing, "MOST_COPIES", 1)
    sizes, found = decided()
    assert max(sizes) < sum(sizes) // 3
    assert found == wanted


def test_windows_do_not_depend_on_how_rows_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_events, "LEAST", 3)
    rows = Life(3).live(200)
    whole = pa.Table.from_batches([batch_of(rows)])
    once = [each.to_pylist() for each in windows([batch_of(rows)], lambda: 20)]
    for seed in range(5):
        cuts = list(windows(cut(random.Random(seed), rows), lambda: 20))
        assert [each.to_pylist() for each in cuts] == once
        assert pa.Table.from_batches(cuts).equals(whole)
        parts = [part for window in cuts for part in stretches(window)]
        assert pa.Table.from_batches([part for _, part in parts]).equals(whole)
        assert all(are_plain(part).all() for plain, part in parts if plain)
    restarts = [row["seq"] for row in whole.to_pylist() if row["kind"] == "restart"]
    assert set(restarts) <= {each[0]["seq"] for each in once}


def test_events_of_columns_are_those_of_their_rows() -> None:
    rows = Life(5).live(200)
    batch = batch_of(rows)
    events = PlainEvents(batch.filter(pa.array(are_plain(batch))))
    plain = [
        row
        for row in rows
        if plain_event(row) and first_message_expiry(row.headers or b"")[0] is None
    ]
    inputs = [input_in(row, quietly=False) for row in plain]
    assert [Published(event) for event in events] == inputs
    assert events[3] == list(events)[3]
    part = pickle.loads(pickle.dumps(events.part(2, 9)))
    assert list(part) == list(events)[2:9]
