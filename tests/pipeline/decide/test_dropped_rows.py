"""Rows that a log has dropped: decisions go on from a snapshot, or fail and say what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Input,
    Left,
    PlaceDefined,
    Published,
    Restarted,
    Subscribed,
)
from nearcast.core.model.record import Record
from nearcast.pipeline.decide import decisions, dropped_rows
from nearcast.pipeline.decide.decisions import DELIVERY, UNUSABLE, decide_batches
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import EARLIER, Snapshots
from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.source.log_ranges import LogRange, RangeRequest, parts_of, read_range
from nearcast.pipeline.source.places import places_in, standing_places
from nearcast.store import (
    Gap,
    LogSettings,
    Row,
    RowBuffer,
    SnapshotHead,
    Store,
    broker_snapshots,
    read_manifest,
    rows_of,
    wanted_snapshot,
    write_snapshot,
)

BROKER = "local"


@pytest.fixture(autouse=True)
def no_players() -> None:
    """A process that has decided on nothing yet."""
    decisions._players.clear()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A broker's store; `news/#` is left to the pipeline, and ann has subscribed to it."""
    store = Store(tmp_path, BROKER, LogSettings(roll_s=0.0))
    add(store, 1.0, Restarted(elsewhere=(("news/#", True),)))
    add(store, 2.0, Subscribed(Subscription("ann\0news", "ann", "news/#")))
    yield store
    store.abandon()


def add(store: Store, now: float, value: Input) -> None:
    """Add a row in a segment of its own."""
    rows = RowBuffer(BROKER)
    rows.append_record(Record(store.seq + 1, now, value))
    store.commit((), rows, now=now)
    assert store.roll(now) is not None


def publish(store: Store, *numbers: int) -> None:
    for number in numbers:
        add(store, number, Published(Event(f"e{number}", "news/1", "ben", number)))


def decide(store: Store, data: Path, first: int) -> tuple[dict[str, list[str]], list[object]]:
    """Decide on all rows from a seq on: recipients by event, and what is unusable."""
    log = store.log.directory
    segments, gaps = parts_of(read_manifest(log), first, store.seq)
    span = LogRange(str(log), BROKER, first, store.seq, tuple(segments), tuple(gaps))
    batches = decide_batches(str(data), read_range(span, RangeRequest()))
    rows = [row for batch in batches for row in batch.to_pylist()]
    sent = {
        row["id"]: [to["session"] for to in row["recipients"]]
        for row in rows
        if row["kind"] == DELIVERY
    }
    unusable = [row for row in rows if row["kind"] == UNUSABLE]
    return sent, [(row["seq"], row["last_seq"], row["reason"][:11]) for row in unusable]


def test_events_reach_their_recipients_after_the_rows_before_were_dropped(
    store: Store, tmp_path: Path
) -> None:
    publish(store, 3, 4)
    assert decide(store, tmp_path, 1) == ({"e3": ["ann"], "e4": ["ann"]}, [])
    player, _ = decisions._players[str(tmp_path), BROKER]
    Snapshots.of(str(tmp_path), BROKER).save(player)
    decisions._players.clear()
    store.log.drop_older(4.5)
    publish(store, 5)
    assert store.log.low_seq == 5
    assert decide(store, tmp_path, 5) == ({"e5": ["ann"]}, [])


@pytest.mark.parametrize("first", [1, 3, 5])
def test_without_a_snapshot_it_fails_and_says_what_to_do(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(dropped_rows, "ASK_S", 0.0)
    publish(store, 3, 4)
    store.log.drop_older(4.5)
    publish(store, 5, 6)
    earlier = Path(str(Snapshots.of(str(tmp_path), BROKER).own), f"{4:015d}{EARLIER}")
    earlier.parent.mkdir(parents=True)
    earlier.write_bytes(b"of a release that pickled players")
    problem = r"local no longer has the rows up to 4 .*: start local, which writes one"
    with pytest.raises(PipelineError, match=problem):
        decide(store, tmp_path, first)
    assert wanted_snapshot(store.log.directory) == 4


def test_with_a_snapshot_of_the_broker_it_goes_on_and_reports_what_it_never_saw(
    store: Store, tmp_path: Path
) -> None:
    publish(store, 3, 4)
    live = Player(BROKER)
    live.apply(_rows(store))
    store.log.drop_older(4.5)
    publish(store, 5)
    live.apply([_rows(store)[-1]])
    directory = broker_snapshots(store.log.directory)
    write_snapshot(directory, SnapshotHead(BROKER, 5), live.in_force())
    publish(store, 6)
    assert decide(store, tmp_path, 1) == ({"e6": ["ann"]}, [(1, 5, "not decided")])
    # Again as from a retry, in which the rows before the snapshot are a batch of their own.
    decisions._players.clear()
    assert decide(store, tmp_path, 1) == ({"e6": ["ann"]}, [(1, 5, "not decided")])
    decisions._players.clear()
    assert decide(store, tmp_path, 3) == ({"e6": ["ann"]}, [(3, 5, "not decided")])
    decisions._players.clear()
    assert decide(store, tmp_path, 6) == ({"e6": ["ann"]}, [])
    assert Snapshots.of(str(tmp_path), BROKER).undecided() == [(1, 5)]
    add(store, 7.0, Left("ann"))
    publish(store, 8)
    assert decide(store, tmp_path, 7) == ({}, [])


def test_a_running_process_does_not_go_on_with_what_it_knew_before_the_gap(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, 3)
    decide(store, tmp_path, 1)
    add(store, 4.0, Left("ann"))
    store.log.drop_older(4.5)
    publish(store, 5)
    monkeypatch.setattr(dropped_rows, "ASK_S", 0.0)
    with pytest.raises(PipelineError, match="no longer has the rows up to 4"):
        decide(store, tmp_path, 4)


def test_an_upgrade_plays_the_log_again_if_it_has_all_rows(store: Store, tmp_path: Path) -> None:
    publish(store, 3, 4)
    earlier = Path(str(Snapshots.of(str(tmp_path), BROKER).own), f"{3:015d}{EARLIER}")
    earlier.parent.mkdir(parents=True)
    earlier.write_bytes(b"of a release that pickled players")
    assert decide(store, tmp_path, 4) == ({"e4": ["ann"]}, [])


def test_places_that_were_defined_in_dropped_rows_are_known(store: Store, tmp_path: Path) -> None:
    spot, wider = (Circle(Position(51.0, 5.0), radius) for radius in (10.0, 20.0))
    for now, name in ((3.0, "yard"), (4.0, "lawn"), (5.0, "pond")):
        add(store, now, PlaceDefined("park", name, spot))
    live = Player(BROKER)
    live.apply(_rows(store))
    Snapshots.of(str(tmp_path), BROKER).save(live)
    store.log.drop_older(3.5)
    add(store, 6.0, PlaceDefined("park", "yard", wider))
    add(store, 7.0, PlaceDefined("park", "lawn", None))
    rows = [*standing_places(str(tmp_path)), *_rows(store)]
    assert {place[1]: place[2] for place in places_in(rows)} == {"pond": spot, "yard": wider}


def _rows(store: Store) -> list[Row]:
    return [row for part in store.log.read() if not isinstance(part, Gap) for row in rows_of(part)]
