"""Rows read from pages alone are those that SQLite reads."""

import random
import sqlite3
from pathlib import Path

import pytest

from nearcast.store.integrity.btree import TreeDamage, TreeRow
from nearcast.store.integrity.state_image import StateImage

TABLES = (
    "CREATE TABLE numbered (id INTEGER PRIMARY KEY, t TEXT, b BLOB, r REAL)",
    "CREATE TABLE keyed (a TEXT, n INTEGER, b BLOB, PRIMARY KEY (a, n)) WITHOUT ROWID",
)


def value(chance: random.Random) -> object:
    return chance.choice(
        (
            None, 0, 1, -1, chance.randrange(-(1 << 63), 1 << 63), chance.randrange(300),
            chance.random(), "é" * chance.choice((0, 3, 900, 5_000)),
            chance.randbytes(chance.choice((0, 10, 1_900, 4_050, 4_061, 4_062, 20_000))),
        )
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_that_sqlite_reads(tmp_path: Path, seed: int) -> None:
    chance, path = random.Random(seed), tmp_path / "db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    for table in TABLES:
        db.execute(table)
    for number in range(chance.choice((0, 5, 400))):
        id_ = chance.choice((number, -number, chance.randrange(1 << 62)))
        row = (id_, value(chance), value(chance), value(chance))
        db.execute("INSERT OR REPLACE INTO numbered VALUES (?, ?, ?, ?)", row)
        key = str(chance.randrange(50)) * chance.choice((1, 400))
        db.execute("INSERT OR REPLACE INTO keyed VALUES (?, ?, ?)", (key, number, value(chance)))
        if number == 200:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if chance.random() < 0.2:
            db.execute("DELETE FROM numbered WHERE id % 3 = 0")
    with StateImage(path) as image:
        tables = image.tables()
        found = [row for row in tables["numbered"].rows() if isinstance(row, TreeRow)]
        numbered = [(row.rowid, *row.values[1:]) for row in found]
        keyed = [row.values for row in tables["keyed"].rows() if isinstance(row, TreeRow)]
    assert numbered == db.execute("SELECT * FROM numbered ORDER BY id").fetchall()
    assert keyed == db.execute("SELECT * FROM keyed ORDER BY a, n").fetchall()
    db.close()


@pytest.mark.parametrize("seed", range(16))
def test_any_changed_byte_ends_in_rows_or_damage_and_never_in_a_loop(
    tmp_path: Path, seed: int
) -> None:
    chance, path = random.Random(seed), tmp_path / "db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(TABLES[0])
    for number in range(200):
        db.execute("INSERT INTO numbered VALUES (?, ?, ?, NULL)", (number, value(chance), "x"))
    db.close()
    data = bytearray(path.read_bytes())
    for _ in range(3):
        data[chance.randrange(100, len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    with StateImage(path) as image:
        for tree in image.tables().values():
            assert all(isinstance(row, TreeRow | TreeDamage) for row in tree.rows())
