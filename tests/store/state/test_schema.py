"""Tables of every form still open, and those of a later release are refused."""

import sqlite3
from pathlib import Path

import pytest

from nearcast.core.model import Event
from nearcast.store import CorruptError, Live, LivePut, LiveSeen, RowBuffer, State, StoreError
from nearcast.store.integrity.checksum_file import checksum_path
from nearcast.store.state.schema import CURRENT, bring_up
from nearcast.store.state.values import StoredSession, encoded, encoded_live
from tests.support.logs.store_rows import session

LIVE = Live("retained\0a", Event("e", "a", "ann", 1.0, retain=True, payload=b"hi"))


def first_form(path: Path) -> None:
    """Write a database of form 1, as the release that had it would."""
    db = sqlite3.connect(path, isolation_level=None)
    bring_up(db, path, "b", version=1)
    db.execute(
        "INSERT INTO sessions (id, value) VALUES ('ann', ?)",
        (encoded(StoredSession("ann", 1.7e9)),),
    )
    db.execute("INSERT INTO live (key, value) VALUES (?, ?)", (LIVE.key, encoded_live(LIVE)))
    db.execute("UPDATE position SET seq = 41, ticks = 7")
    db.close()


def test_the_first_form_is_brought_up_with_all_it_held(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    first_form(path)
    state = State(path, "b")
    assert (state.seq, state.ticks) == (41, 7)
    assert list(state.load()) == [session("ann"), LivePut(LIVE)]
    state.commit([LiveSeen(LIVE.key, "ann")], RowBuffer(), 0)
    state.close()
    again = State(path, "b")
    assert LiveSeen(LIVE.key, "ann") in list(again.load())
    again.close()


def test_a_bringing_up_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    first_form(path)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TRIGGER unsee AFTER DELETE ON live BEGIN SELECT 1; END")
    with pytest.raises(StoreError, match=f"bringing it from form 1 to {CURRENT} failed"):
        State(path, "b")
    assert db.execute("SELECT version FROM schema_version").fetchone() == (1,)
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}
    assert "live_seen" not in tables
    db.close()


def test_a_later_form_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    State(path, "b").close()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE schema_version SET version = 99")
    db.close()
    checksum_path(path).unlink()
    with pytest.raises(StoreError, match=f"has form 99; this release reads up to {CURRENT}"):
        State(path, "b")


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE recipes (name)")
    db.commit()
    db.close()
    with pytest.raises(CorruptError, match="not one of Nearcast's"):
        State(path, "b")


def test_the_state_of_another_broker_is_refused(tmp_path: Path) -> None:
    State(tmp_path / "state.sqlite", "b").close()
    with pytest.raises(StoreError, match="belongs to broker 'b', not 'c'"):
        State(tmp_path / "state.sqlite", "c")


def test_a_value_of_a_later_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    first_form(path)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE sessions SET value = CAST(x'07' || substr(value, 2) AS BLOB)")
    db.close()
    state = State(path, "b")
    with pytest.raises(StoreError, match="a kept session has form 7"):
        list(state.load())
    state.close()
