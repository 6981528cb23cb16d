"""A person is forgotten: in memory, in the state file and in every byte of the log."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast.store import ERASED, Gap, LogReader, rows_of
from nearcast.wire.mqtt import Connect, Properties, SubAck, Subscribe, TopicFilter, Will
from tests.support.broker_process import BrokerProcess
from tests.support.clients.raw_client import RawClient
from tests.support.logs.broker_log import read_log

SQUARE = b'{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}'


def files_with(text: bytes, directory: Path) -> list[str]:
    """Names of files that hold some text; segments are compressed, so their rows are read."""
    found = [
        path.name
        for path in directory.rglob("*")
        if path.is_file() and path.suffix != ".parquet" and text in path.read_bytes()
    ]
    found += ["the log" for row in read_log(directory) if text.decode() in repr(row)]
    return found


def forget(node: str, data: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nearcast", "forget", node, "--data", str(data), "--yes", *more],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def say_things(port: int) -> None:
    """Jane says where she is, publishes, and has a session; Bob waits for her messages."""
    bob, jane = RawClient(port), RawClient(port)
    try:
        keeps = Properties(session_expiry_interval=1000)
        bob.connect(Connect("bob", properties=keeps))
        bob.subscribe("news/#", qos=1)
        bob.subscribe("$relate/#", qos=1)
        will = Will("news/3", b"jane-doe is gone", 1, False, Properties(will_delay_interval=500))
        jane.connect(Connect("jane-doe~phone", will=will, properties=keeps))
        jane.subscribe("secret/jane-doe", qos=1)
        bob.close()
        jane.publish("$me/position", b"53.35,-6.26", 1)
        jane.publish("$me/context", b'{"kind": "walker"}', 1)
        jane.publish("news/1", b"about jane-doe", 1)
        jane.publish("news/2", b"jane-doe again", 1, retain=True)
        jane.publish("$place/home/jane-doe", SQUARE, 1)
        jane.publish("$place/home/hers", SQUARE, 1)
        jane.publish("$relate/hers", b'{"members": ["bob", "cat"], "within": 5}', 1)
        jane.publish("$relate/pair", b'{"members": ["bob", "jane-doe"], "within": 5}', 1)
        jane.publish("$area/yard", b'{"area": "circle:53.35,-6.26,500"}', 1)
    finally:
        jane.close()


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it does not"])
def test_nothing_of_a_person_is_left(running: bool, tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = BrokerProcess(data, {"record.deliveries": True}).wait_until_it_listens()
    try:
        say_things(broker.port)
        if not running:
            broker.stop()
        done = forget("jane-doe", data)
        assert done.returncode == 0, done.stderr
        assert "Forgot jane-doe: 1 sessions, " in done.stdout
        assert json.loads(forget("jane-doe", data, "--json").stdout)["sessions"] == 0
    finally:
        if running:
            broker.stop()
    assert files_with(b"jane-doe", data) == []
    log = LogReader(data / "brokers" / "local" / "log")
    kinds = [row.kind for part in log.read() if not isinstance(part, Gap) for row in rows_of(part)]
    assert ERASED in kinds
    assert len(kinds) == log.segments()[-1].last_seq
    again = BrokerProcess(data).wait_until_it_listens()
    try:
        ann = RawClient(again.port)
        ann.connect(Connect("ann"))
        ann.send(
            Subscribe(
                1, (TopicFilter("x"),), Properties(user_properties=(("nc-from", "place:hers"),))
            )
        )
        assert ann.wait_for(SubAck).reason_codes[0].failed, "a place that is not shown is none"
        ann.close()
    finally:
        again.stop()


def test_forgetting_where_there_is_no_broker_is_one_message(tmp_path: Path) -> None:
    done = forget("jane", tmp_path)
    assert done.returncode == 1
    assert "holds no broker" in done.stderr
    assert "Traceback" not in done.stderr
