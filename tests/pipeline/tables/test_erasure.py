"""A person who is forgotten is in no file of the pipeline's any more; others lose nothing."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.core.gathering import Part, Threshold
from nearcast.core.gathering.aggregates.summary import aggregate
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import ContextPatched, Published
from nearcast.pipeline.decide.decisions import RECIPIENT
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import COMPILED, Snapshots
from nearcast.pipeline.jobs.status import QueryStatus, Status, write_status
from nearcast.pipeline.tables.erasure import caught_up, forget, without
from nearcast.pipeline.tables.tables import EpochId, Tables, time_column
from nearcast.store import Store

NODES = ("ann", "ann-marie", "joann", "ben", "ann/1", "ünn")
GONE = "ann"
EVENTS = pa.schema(
    [("publisher", pa.string()), ("event_id", pa.string()), ("subject", pa.string()),
     ("payload", pa.binary())]
)  # fmt: skip
DELIVERIES = pa.schema(
    [("publisher", pa.string()), ("subject", pa.string()), ("priority", pa.int32()),
     ("count", pa.int32()), ("recipients", pa.list_(RECIPIENT))]
)  # fmt: skip
CONTEXTS = pa.schema([("node", pa.string()), ("attributes", pa.string())])
ENCOUNTERS = pa.schema([("a", pa.string()), ("b", pa.string()), ("state", pa.string())])
REJECTS = pa.schema([("publisher", pa.string()), ("reason", pa.string())])
AGGREGATES = pa.schema(
    [("rule", pa.string()), ("group", pa.string()), ("id", pa.string()), ("time", pa.float64()),
     ("count", pa.int64()), ("people", pa.int64()), ("payload", pa.string()),
     ("lat", pa.float64()), ("lon", pa.float64())]
)  # fmt: skip
Rows = list[dict[str, Any]]


def write(tables: Tables, name: str, epoch: int, rows: Rows, schema: pa.Schema) -> None:
    column = time_column(name)
    table = pa.Table.from_pylist(rows, schema=schema)
    if column not in schema.names:
        table = table.append_column(column, pa.array([float(epoch)] * len(rows), pa.float64()))
    tables.append(name, table, EpochId("q", epoch))


def values_in(directory: Path) -> list[str]:
    """All that files say, also those that are compressed."""
    found = []
    for path in sorted(directory.rglob("*")):
        if path.suffix == ".parquet":
            found.append(repr(pq.ParquetFile(path).read().to_pylist()))
        elif path.is_file():
            found.append(path.read_bytes().decode(errors="replace"))
    return found


def recipients(draw: random.Random) -> Rows:
    sessions = [*NODES, "ann~phone", "ben~phone", "ann-marie~ann"]
    return [
        {
            "session": session,
            "subscriptions": [f"{session}\0news/#"],
            "priority": draw.randint(1, 9),
            "replayed": False,
        }
        for session in draw.sample(sessions, draw.randint(1, 4))
    ]


def is_of(session: str) -> bool:
    return session.partition("~")[0] == GONE


@pytest.mark.parametrize("seed", range(20))
def test_deliveries_go_to_the_others_alone(seed: int) -> None:
    draw = random.Random(seed)
    rows: Rows = []
    for _ in range(draw.randint(1, 60)):
        to = recipients(draw)
        rows.append(
            {
                "publisher": draw.choice(NODES),
                "subject": "news/1",
                "priority": min(each["priority"] for each in to),
                "count": len(to),
                "recipients": to,
            }
        )
    table = pa.Table.from_pylist(rows, schema=DELIVERIES)
    # As columns come that are a part of others, and in chunks.
    pieces = pa.concat_tables([table.slice(0, len(rows) // 2), table.slice(len(rows) // 2)])
    found, touched = without(pieces, GONE)
    expected, changed = [], 0
    for row in rows:
        left = [each for each in row["recipients"] if not is_of(each["session"])]
        changed += row["publisher"] == GONE or len(left) < len(row["recipients"])
        if row["publisher"] != GONE and left:
            priority = min(each["priority"] for each in left)
            expected.append(row | {"recipients": left, "count": len(left), "priority": priority})
    assert found.to_pylist() == expected
    assert touched == changed


def test_what_the_pipeline_published_of_somebody_goes_with_them() -> None:
    met = "encounters/ann/ben"
    rows = [
        ("$pipeline", met, b"{}"),
        ("$pipeline", "encounters/ann-marie/ben", b'{"a":"ann-marie"}'),
        ("$pipeline", "spots", b'{"people":["ann","ben"]}'),
        ("$pipeline", "spots", b'{"people":["joann"]}'),
        ("ben", met, b'{"with":"ann"}'),
        ("ann", "news/1", b""),
        ("ben", "news/1", None),
    ]
    table = pa.Table.from_pylist(
        [
            {"publisher": who, "event_id": str(at), "subject": subject, "payload": payload}
            for at, (who, subject, payload) in enumerate(rows)
        ],
        schema=EVENTS,
    )
    found, touched = without(table, GONE)
    # What Ben says of Ann in a message of his own is his.
    assert found["event_id"].to_pylist() == ["1", "3", "4", "6"]
    assert touched == 3
    for subject in ("encounters/ben/z%C3%B6%20%2F", "encounters/ben/zö %2F"):
        told = pa.Table.from_pylist([{"publisher": "$pipeline", "subject": subject}], EVENTS)
        assert without(told, "zö /")[0].num_rows == 0
        assert without(told, "zö")[0].num_rows == 1
    odd, _ = without(table.append_column("node", [["é+1"] * len(rows)]), "é+1")
    assert odd.num_rows == 0


def said(draw: random.Random) -> bytes:
    found = {"all": 1, "speed": draw.randint(1, 3), "x": draw.choice("ab")}
    return json.dumps(found | draw.choice([{}, {"some": draw.randint(1, 2)}])).encode()


def read(rows: Rows) -> Rows:
    return [row | {"payload": json.loads(row["payload"])} for row in rows]


@pytest.mark.parametrize("at", [None, (53.35, -6.26)], ids=["no place", "a cell"])
def test_an_aggregate_is_what_it_would_be_without_the_parts_of_one(
    at: tuple[float, float] | None,
) -> None:
    draw = random.Random(7)
    group, middle = ("subject:news/1", None) if at is None else ("cell:c1", Position(*at))
    for _ in range(50):
        parts = [
            Part(
                str(number), draw.choice(NODES), 1e9 + number, 1e9 + number,
                *draw.choice([(53.0 + number, -6.0), (None, None)]),
                said(draw),
            )
            for number in range(draw.randint(1, 8))
        ]  # fmt: skip
        volume = Threshold("volume", 1)

        def row(some: list[Part], volume: Threshold = volume) -> dict[str, Any]:
            made = aggregate("news/#", group, some, volume, middle)
            return {
                "rule": "news/#", "group": group, "id": "1", "time": made.time,
                "count": made.count, "people": made.people, "payload": made.payload.decode(),
                "lat": made.lat, "lon": made.lon,
            }  # fmt: skip

        others = [part for part in parts if part.publisher != GONE]
        found, touched = without(pa.Table.from_pylist([row(parts)], schema=AGGREGATES), GONE)
        assert read(found.to_pylist()) == read([row(others)] if others else [])
        assert touched == (len(others) < len(parts))


def test_an_aggregate_that_hides_people_is_left_alone() -> None:
    told = {"people": 10, "attributes": {"first": "ann"}}
    row = {"rule": "a/#", "group": "cell:c", "payload": json.dumps(told), "people": 10, "count": 12}
    table = pa.Table.from_pylist([row], schema=AGGREGATES)
    assert without(table, GONE)[0].to_pylist() == table.to_pylist()


def fill(data: Path) -> Tables:
    tables = Tables(data)
    who = [{"publisher": node, "subject": "news/1", "event_id": "1"} for node in NODES]
    to = recipients(random.Random(1))
    friends = json.dumps({"friends": ["ann", "ben"], "role": "ann", "name": "annabel"})
    written: dict[str, tuple[Rows, pa.Schema]] = {
        "events": (who, EVENTS),
        "deliveries": ([{"publisher": "ben", "recipients": [*to, *to]}], DELIVERIES),
        "contexts": ([{"node": "ann"}, {"node": "ben", "attributes": friends}], CONTEXTS),
        "encounters": ([{"a": "ann", "b": "ben"}, {"a": "ben", "b": "ünn"}], ENCOUNTERS),
        "rejects": (
            [{"publisher": "ann"}, {"reason": "refused: ann~phone is not joann, but ann"}],
            REJECTS,
        ),
    }
    for name, (rows, schema) in written.items():
        for epoch in (3, 4):
            write(tables, name, epoch, rows, schema)
    tables.create("aggregates", AGGREGATES)
    player = Player("local")
    player.engine.step([ContextPatched("ann", {"role": "ann"})], now=1)
    player.engine.step([Published(Event("1", "news/1", "ann", time=1, valid_s=100))], now=1)
    for broker in ("local", "other"):
        Snapshots.of(str(data), broker).save(player)
    return tables


def test_nothing_of_a_person_is_left_in_any_file(tmp_path: Path) -> None:
    tables = fill(tmp_path)
    tables.compact()
    write(tables, "encounters", 9, [{"a": "ben", "b": "ünn"}], ENCOUNTERS)
    (untouched,) = [each.path for each in tables.files("encounters") if each.rows == 1]
    before = values_in(tmp_path)
    assert any("'ann'" in text for text in before)
    assert any("annabel" in text for text in before)
    kept = sorted((tmp_path / "checkpoints" / "snapshots").rglob("*.parquet"))
    assert len(kept) == 2
    assert list(tmp_path.rglob(f"*{COMPILED}"))
    # What a writer left that was killed before it committed.
    orphans = [{"publisher": "ann", "subject": "ann/orphan"}]
    rows = pa.Table.from_pylist(orphans, schema=EVENTS)
    tables.write("events", rows.append_column("ingested", pa.array([1.0])), "killed")
    assert any("ann/orphan" in text for text in values_in(tmp_path))

    forget(tmp_path, GONE)
    after = " ".join(values_in(tmp_path))
    for name in ("'ann'", '"ann"', "ann~phone", "ann\\x00", " ann", "ann/orphan"):
        assert name not in after
    for name in ("annabel", "ann-marie", "joann", "ünn", "ann/1"):
        assert name in after
    assert sorted((tmp_path / "checkpoints" / "snapshots").rglob("*.parquet")) == kept
    assert not list(tmp_path.rglob(f"*{COMPILED}"))
    assert untouched in {each.path for each in tables.files("encounters")}
    assert tables.version("aggregates") is not None
    # The history begins here: no earlier version can be read, and epochs go on.
    for name in ("events", "encounters"):
        assert len(list((tmp_path / "tables" / name / "_delta_log").glob("*.json"))) <= 2
    assert not tables.append("encounters", pa.table({"time": [1.0]}), EpochId("q", 9))
    assert forget(tmp_path, GONE) == 0


def test_the_command_forgets_here_too(tmp_path: Path) -> None:
    Store(tmp_path, "local").close()
    fill(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "nearcast", "forget", GONE, "--data", str(tmp_path), "--yes"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (rows,) = re.findall(r"(\d+) rows of tables", done.stdout)
    assert int(rows) > 0
    assert "'ann'" not in " ".join(values_in(tmp_path / "tables"))


def test_where_no_pipeline_ever_ran_nothing_is_made(tmp_path: Path) -> None:
    assert forget(tmp_path, GONE) == 0
    assert list(tmp_path.iterdir()) == []
    assert caught_up(tmp_path, {"local": 5}, 0.0)


def test_a_pipeline_that_runs_is_waited_for(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    write_status(tmp_path, Status(9e9, 1, [QueryStatus("tables", "running")]))
    assert not caught_up(tmp_path, {"local": 5}, 0.0)
    for name in ("commits", "offsets"):
        (tmp_path / "checkpoints" / "tables" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / "tables" / name / "0").write_text('v1\n{}\n{"local": 6}')
    assert caught_up(tmp_path, {"local": 5}, 0.0)
    assert not caught_up(tmp_path, {"local": 6}, 0.0)
    assert not caught_up(tmp_path, {"local": 5, "other": 1}, 0.0)
    write_status(tmp_path, Status(0.0, 1, [QueryStatus("tables", "running")]))
    assert caught_up(tmp_path, {"local": 9}, 0.0)
