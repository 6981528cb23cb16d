"""`nearcast match`: a filter is tried on an event without a broker."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nearcast.cli import app


def match(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(app, ["match", *arguments], input=given)


def test_each_atom_has_its_verdict(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text('{"delay": 1, "kind": "bus"}')
    done = match(
        "delay > 2 AND kind = 'bus' AND distance(me, event) < 800 AND me.role = 'x'", str(event),
        "--at", "53.35,-6.26", "--event-at", "53.36,-6.26", "--from", "circle:me,800",
        "--me", '{"role": "driver"}',
    )  # fmt: skip
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "no       from: 1,113 m from me, area 800 m",
        "no       delay is 1, wants > 2",
        "yes      kind is 'bus', wants = 'bus'",
        "no       distance(me, event) is 1,113 m, wants < 800",
        "no       me.role is 'driver', wants = 'x'",
        "It does not match.",
    ]


def test_what_is_missing_is_unknown() -> None:
    done = match("delay > 2", "-", given="{}")
    assert (done.exit_code, done.output) == (
        1, "unknown  delay is unknown, wants > 2\nIt does not match.\n",
    )  # fmt: skip


def test_a_whole_event_and_json() -> None:
    whole = {
        "subject": "bus/7", "publisher": "ann", "time": "2026-05-04T10:11:12Z",
        "at": "53.35,-6.26", "payload": {"delay": 5},
    }  # fmt: skip
    done = match(
        "event.subject LIKE 'bus/%' AND delay > 2 AND event.time > DATE('2026-01-01')",
        json.dumps(whole), "--from", "circle:53.35,-6.26,100", "--json",
    )  # fmt: skip
    assert done.exit_code == 0
    told = json.loads(done.output)
    assert told["matches"] is True
    assert [step["step"] for step in told["steps"]] == ["from", "where"]
    assert [atom["holds"] for atom in told["steps"][1]["atoms"]] == [True, True, True]


@pytest.mark.parametrize(
    "arguments",
    [
        ("delay > 2", "nothing.json"),
        ("delay > 2", "[1]"),
        ("delay > 2", "{"),
        ("delay > 2", "{}", "--at", "x"),
        ("delay > 2", '{"payload": {}, "time": "now"}'),
    ],
)
def test_what_cannot_be_meant_is_told(arguments: tuple[str, ...]) -> None:
    done = match(*arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.output
