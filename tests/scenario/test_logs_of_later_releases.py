"""Logs with rows that only a later release knows: read where they decide nothing, else refused.

Into the log of a random life rows of made-up kinds are put. Of kinds that begin with `info.` every
reader finds the same as without them; at any other every reader stops, and says where and why.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from nearcast.broker.config.settings import Settings
from nearcast.broker.durability.recovery import restore
from nearcast.broker.durability.store_writer import journal_for
from nearcast.broker.hub import Hub
from nearcast.broker.operations.explanations.explanation import explain
from nearcast.broker.operations.explanations.recent_events import recent_events
from nearcast.pipeline.decide.decisions import decide_batches
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.source.data_source import LogHistoryReader, source_options
from nearcast.pipeline.source.places import places_in
from nearcast.store import (
    ERASED,
    INFORMATIONAL,
    Gap,
    LogReader,
    Row,
    RowBuffer,
    Store,
    UpgradeError,
    batch_of,
    broker_directory,
    is_input,
    rows_of,
)
from nearcast.testing import World
from tests.support.logs.broker_log import write_log
from tests.support.logs.recorded_life import log_of_a_life, played

BROKER = "broker"
INFORMING, DECIDING = f"{INFORMATIONAL}pulse", "teleport"
EVERY = 7
"""After so many rows there is one of a made-up kind."""


@pytest.fixture(scope="module")
def life() -> list[Row]:
    """The rows of a random life, without those that decide nothing."""
    rows = [row for row in log_of_a_life(World(seed=11), 40) if is_input(row.kind)]
    return [replace(row, seq=seq) for seq, row in enumerate(rows, 1)]


def with_kind(rows: Sequence[Row], kind: str) -> list[Row]:
    """Return rows with others of a kind among them, in a form that is to come."""
    found: list[Row] = []
    for row in rows:
        if len(found) % EVERY == EVERY - 1:
            # Its columns look like those of an event, to tempt a reader.
            found.append(
                Row(
                    BROKER, 0, kind, row.ingested, 9, f"id-{len(found)}", "news/x", "stranger",
                    row.ingested, 1.0, 2.0, "stranger", data='{"pulse":[1,2]}',
                )
            )  # fmt: skip
        found.append(row)
    return [replace(row, seq=seq) for seq, row in enumerate(found, 1)]


def own(rows: Sequence[Row]) -> list[Row]:
    """Return rows that this release knows, without the numbers that others moved."""
    return [replace(row, seq=0) for row in rows if is_input(row.kind)]


# The readers: each returns what it found in a log, in a form that does not name numbers of rows.


def read(data: Path) -> object:
    parts = LogReader(broker_directory(data, BROKER) / "log").read()
    return own([row for part in parts if not isinstance(part, Gap) for row in rows_of(part)])


def read_backwards(data: Path) -> object:
    parts = LogReader(broker_directory(data, BROKER) / "log").read_backwards()
    return own([row for part in parts for row in reversed(list(rows_of(part)))])


def list_events(data: Path) -> object:
    return recent_events(broker_directory(data, BROKER) / "log", 10_000)


def explain_the_last_event(data: Path) -> object:
    log = broker_directory(data, BROKER) / "log"
    rows = pq.read_table(log).sort_by("seq").to_pylist()
    last = [row for row in rows if row["kind"] == "event"][-1]
    found = explain(log, last["event_id"], "ann", publisher=last["publisher"])
    return replace(found, seq=0, later=None)


def history(data: Path, **more: str) -> list[pa.RecordBatch]:
    reader = LogHistoryReader(source_options({"path": str(data), **more}))
    return [batch for part in reader.partitions() for batch in reader.read(part)]


def read_in_spark(data: Path) -> object:
    return own([row for batch in history(data) for row in rows_of(batch)])


def read_positions_in_spark(data: Path) -> object:
    found = history(data, kinds="position", columns="node,lat,lon")
    return [row for batch in found for row in batch.to_pylist()]


def play(data: Path) -> object:
    rows = [row for batch in history(data) for row in rows_of(batch)]
    return played(Player(BROKER), rows)


def decide(data: Path) -> object:
    decided = [
        row for batch in decide_batches(str(data), history(data)) for row in batch.to_pylist()
    ]
    return [{**row, "seq": 0} for row in decided]


def apply_and_keep(data: Path) -> object:
    player = Player(BROKER)
    player.apply_columns(history(data))
    return sorted(player.engine.subscriptions), sorted(player.engine.nodes)


def find_places(data: Path) -> object:
    return places_in(row for b in history(data, kinds="place") for row in rows_of(b))


READERS: tuple[Callable[[Path], object], ...] = (
    read,
    read_backwards,
    list_events,
    explain_the_last_event,
    read_in_spark,
    read_positions_in_spark,
    play,
    decide,
    apply_and_keep,
    find_places,
)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_a_kind_that_decides_nothing_changes_nothing(
    reader: Callable[[Path], object], tmp_path: Path, life: list[Row]
) -> None:
    write_log(tmp_path / "without", BROKER, life, per_segment=40)
    write_log(tmp_path / "with", BROKER, with_kind(life, INFORMING), per_segment=40)
    expected = reader(tmp_path / "without")
    assert reader(tmp_path / "with") == expected


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_at_a_kind_that_may_decide_a_reader_stops(
    reader: Callable[[Path], object], tmp_path: Path, life: list[Row]
) -> None:
    rows = [*life[:50], replace(life[50], kind=DECIDING), *life[51:]]
    write_log(tmp_path, BROKER, rows, per_segment=40)
    with pytest.raises(UpgradeError, match=f"row 51 of .* kind '{DECIDING}'.*upgrade"):
        reader(tmp_path)


# A player that is handed rows by something else than a reader of logs


def test_a_player_that_is_handed_such_a_row_stops(life: list[Row]) -> None:
    rows = [*life[:50], replace(life[50], kind=DECIDING)]
    for going in (
        lambda: list(Player(BROKER).decide(rows)),
        lambda: Player(BROKER).apply(rows),
        lambda: list(Player(BROKER).decide_columns([batch_of(rows)])),
    ):
        with pytest.raises(UpgradeError, match=f"row 51 .* kind '{DECIDING}'.*upgrade"):
            going()


def test_a_player_stops_at_a_known_kind_in_a_later_form(life: list[Row]) -> None:
    with pytest.raises(UpgradeError, match=r"row 51 .* form 9; .* Upgrade"):
        list(Player(BROKER).decide([*life[:50], replace(life[50], schema=9)]))


# The broker


def started(data: Path) -> Hub:
    """Start a broker from what it keeps."""
    store = Store(data, BROKER)
    try:
        hub = Hub(Settings(), journal_for(store))
        restore(hub, store, 2e9)
        return hub
    finally:
        store.close()


def keep(data: Path, rows: Sequence[Row]) -> None:
    store = Store(data, BROKER)
    store.commit([], RowBuffer.of(rows), now=0.0)
    store.close()


def test_a_broker_starts_after_rows_that_decide_nothing(tmp_path: Path, life: list[Row]) -> None:
    keep(tmp_path / "without", life)
    keep(tmp_path / "with", with_kind(life, INFORMING))
    expected, found = started(tmp_path / "without"), started(tmp_path / "with")
    assert found.engine.nodes == expected.engine.nodes
    assert not any("stranger" in str(each) for each in found.engine.nodes)


def test_a_broker_does_not_start_after_rows_that_may_decide(
    tmp_path: Path, life: list[Row]
) -> None:
    keep(tmp_path, [*life[:50], replace(life[50], kind=DECIDING)])
    with pytest.raises(UpgradeError, match=f"row 51 of {BROKER} is of kind '{DECIDING}'.*upgrade"):
        started(tmp_path)


def test_a_person_is_erased_from_rows_of_unknown_kinds(tmp_path: Path) -> None:
    kinds = (
        Row(BROKER, 1, INFORMING, 1.0, node="ann"),
        Row(BROKER, 2, INFORMING, 1.0, data='{"late":{"ann~phone":3}}'),
        Row(BROKER, 3, INFORMING, 1.0, properties=(("who", "ann"),)),
        Row(BROKER, 4, INFORMING, 1.0, payload=b'["ann"]'),
        Row(BROKER, 5, INFORMING, 1.0, subject="late/ann"),
        Row(BROKER, 6, INFORMING, 1.0, subject="late/anna", data='{"bob":1}'),
    )
    keep(tmp_path, kinds)
    store = Store(tmp_path, BROKER)
    store.erase("ann", now=1.0)
    left = [row for part in store.log.read() if not isinstance(part, Gap) for row in rows_of(part)]
    store.close()
    assert [row.kind for row in left] == [ERASED] * 5 + [INFORMING]
    assert left[5] == kinds[5]


def test_nobody_is_erased_from_a_log_that_cannot_be_read_whole(tmp_path: Path) -> None:
    rows = [
        Row(BROKER, 1, "presence", 1.0, node="ann", data='{"here":true}'),
        Row(BROKER, 2, DECIDING, 1.0, node="ann"),
    ]
    for row in rows:
        keep(tmp_path, [row])
        store = Store(tmp_path, BROKER)
        store.roll(now=1e10)
        store.close()
    store = Store(tmp_path, BROKER)
    with pytest.raises(UpgradeError, match=f"row 2 of {BROKER} is of kind '{DECIDING}'.*upgrade"):
        store.erase("ann", now=1.0)
    store.close()
    log = broker_directory(tmp_path, BROKER) / "log"
    assert pq.read_table(log).sort_by("seq")["node"].to_pylist() == ["ann", "ann"]
