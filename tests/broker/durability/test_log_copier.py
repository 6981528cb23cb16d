"""A broker with a store for a cluster: its log is there too, and it never waits for the store."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="obstore is not installed")
pytest.importorskip("flask_cors", reason="the server of moto is not installed")

from nearcast.broker.durability.log_copier import LogCopier, copy_of_log
from nearcast.store import Gap, LogReader, StoreError, log_directory, names_in, path_at, rows_of
from nearcast.store.durable_files import write_whole
from tests.support.broker_process import BrokerEndedError, BrokerProcess
from tests.support.clients.stubborn_client import StubbornClient
from tests.support.logs.store_rows import AT_ONCE, BROKER, opened, write_segments
from tests.support.object_store import BUCKET, client_environment, free_port, s3_server
from tests.support.waiting import until


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """The port of an object store that need not be there."""
    found = free_port()
    for name, value in client_environment(found).items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def url(port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """The location of the copy; a process remembers the server of each."""
    found = f"s3://{BUCKET}/of-port-{port}"
    monkeypatch.setenv("NEARCAST_DATA_STORAGE", found)
    return found


@pytest.fixture
def broker(tmp_path: Path, url: str) -> Iterator[BrokerProcess]:
    settings = {"log.roll_s": 0.1, "listen.http_port": 0}
    found = BrokerProcess(tmp_path / "data", settings).wait_until_it_listens()
    yield found
    found.end()


def publish(broker: BrokerProcess, name: str, *texts: str) -> None:
    """Publish texts of QoS 1 and wait until they are acknowledged."""
    client = StubbornClient(name)
    client.connect(broker.port)
    for text in texts:
        client.publish("city/news", text.encode(), qos=1)
    client.leave()


def copied(url: str) -> list[bytes | None]:
    """The payloads of events in the copy."""
    try:
        parts = list(LogReader(log_directory(path_at(url), "local")).read())
    except StoreError:
        return []
    batches = [part for part in parts if not isinstance(part, Gap)]
    return [row.payload for each in batches for row in rows_of(each) if row.kind == "event"]


def forget(data: Path, node: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nearcast", "forget", node, "--yes", "--json"]
    return subprocess.run(
        [*command, "--data", str(data)], capture_output=True, text=True, timeout=120, check=False
    )


def test_a_log_is_copied_and_who_is_forgotten_is_gone_there_too(
    broker: BrokerProcess, port: int, url: str
) -> None:
    with s3_server(port):
        publish(broker, "ann", "hello", "again")
        publish(broker, "bob", "other")
        until(lambda: copied(url) == [b"hello", b"again", b"other"], "the log is in the store")
        assert broker.figure("nearcast_store_copied_segments_total") >= 1
        done = forget(broker.data, "ann")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["segments"] >= 1
        place = log_directory(path_at(url), "local")
        for name in names_in(place):
            assert b"hello" not in (place / name).read_bytes()
        assert copied(url) == [b"other"]
        assert broker.stop() == 0
        # Also of a broker that does not run.
        done = forget(broker.data, "bob")
        assert done.returncode == 0, done.stderr
        assert copied(url) == []


def test_what_an_earlier_life_left_half_way_is_deleted(tmp_path: Path) -> None:
    store = opened(tmp_path / "data", AT_ONCE)
    write_segments(store, 2)
    storage = (tmp_path / "copy").as_uri()
    place, copy = log_directory(path_at(storage), BROKER), copy_of_log(store, storage)
    assert copy is not None
    write_whole(place / "00000009.parquet", b"no manifest names it")
    copier = LogCopier(copy)
    copier.update().result(30.0)
    copier.stop()
    store.abandon()
    assert [name for name in names_in(place) if name.endswith(".parquet")] == [
        "00000001.parquet", "00000002.parquet",
    ]  # fmt: skip


def test_a_location_of_no_store_is_said_at_the_start(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", {"data.storage": "s4://bucket"})
    with pytest.raises(BrokerEndedError, match="s4://bucket is no location of an object store"):
        broker.wait_until_it_listens()
    assert "Traceback" not in broker.said


def test_a_store_that_is_away_holds_up_nobody(broker: BrokerProcess, port: int, url: str) -> None:
    publish(broker, "ann", "one", "two")
    until(lambda: broker.figure("nearcast_store_copy_failing") == 1, "the store is missed")
    publish(broker, "ann", "three")
    assert "the log cannot be copied" in broker.said
    done = forget(broker.data, "nobody")
    assert done.returncode != 0
    assert "the copy of the log is not up to date" in done.stderr
    with s3_server(port):
        texts = [b"one", b"two", b"three"]
        until(lambda: copied(url) == texts, "the copy has caught up", within_s=90.0)
        publish(broker, "ann", "four")
        assert broker.stop() == 0
        assert copied(url) == [*texts, b"four"]
