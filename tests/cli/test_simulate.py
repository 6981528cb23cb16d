"""`nearcast simulate`: worlds of silent pairs, invented or recorded."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nearcast.cli import app


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", "--nodes", "6", "--seconds", "60", *arguments])


def test_what_was_sent_and_detected_is_printed() -> None:
    done = simulate("--movement", "buses", "--strategy", "strip")
    assert done.exit_code == 0, done.output
    assert "saved" in done.output
    found = json.loads(simulate("--loss", "0.2", "--crashes", "60", "--json").stdout)
    assert found["nodes"] == 6
    assert found["messages"] < found["raw"]


def test_a_recorded_track_is_replayed(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {"entity_id": f"cab:{cab}", "ts": start + timedelta(seconds=second), "lat": 53.35,
         "lon": -6.26 + 0.0001 * second * cab}
        for second in range(60) for cab in (0, 1)
    ]  # fmt: skip
    file = tmp_path / "tracks.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), file)
    found = json.loads(simulate("--tracks", str(file), "--within", "100", "--json").stdout)
    assert (found["nodes"], found["changes"], found["detected"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--strategy", "guess"), "ring, strip"),
        (("--strategy", "predictive-strip", "--clock-error", "1"), "clocks that agree"),
    ],
)
def test_what_cannot_work_is_said(arguments: tuple[str, ...], said: str) -> None:
    done = simulate(*arguments)
    assert done.exit_code == 2
    assert said in done.output
