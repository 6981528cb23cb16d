"""A disk that is full, read-only, damaged or somebody else's: told plainly, and survived."""

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from nearcast.store import Gap, LogReader, rows_of
from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5, Connect, Publish, ReasonCode, encode
from tests.support.broker_process import BrokerEndedError, BrokerProcess
from tests.support.clients.stubborn_client import GoneError, StubbornClient
from tests.support.logs.broker_log import read_log
from tests.support.waiting import until

WAIT_S = 30.0
MEBIBYTE = 1 << 20
QUOTA_EXCEEDED = int(ReasonCode.QUOTA_EXCEEDED)
WITH_HTTP = {"listen.http_port": 0}


class TightDisk(Struct):
    """A broker whose disk will be full soon, and what makes room on it."""

    broker: BrokerProcess
    make_room: Callable[[], None]


def mount(*options: str) -> None:
    done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"may not mount: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=48m", "tmpfs", str(place))
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A data directory in which nobody may write, not even the superuser."""
    place = tmp_path / "data"
    place.mkdir()
    mount("--bind", str(place), str(place))
    mount("-o", "remount,ro,bind", str(place))
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture(params=["full disk", "largest file"])
def tight(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TightDisk]:
    if request.param == "full disk":
        disk: Path = request.getfixturevalue("small_disk")
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(40 * MEBIBYTE))
        running = BrokerProcess(disk / "data", WITH_HTTP, errors=tmp_path / "stderr")
        found = TightDisk(running.wait_until_it_listens(), ballast.unlink)
    else:
        running = BrokerProcess(tmp_path / "data", WITH_HTTP, largest_file=4 * MEBIBYTE)
        found = TightDisk(running.wait_until_it_listens(), running.let_files_grow)
    yield found
    running.end()


def test_while_the_disk_is_full_nothing_is_promised_and_others_are_served(
    tight: TightDisk,
) -> None:
    broker = tight.broker
    subscriber = away("sub", broker.port, "fill")
    publisher = StubbornClient("pub", window=10)
    publisher.connect(broker.port)
    sent = fill(publisher, broker)
    assert json.loads(broker.ask("/healthz"))["status"] in ("failing", "degraded")
    # Those who need no promise are served: connections, messages of QoS 0, pings.
    ear, mouth = StubbornClient("ear", keep=False), StubbornClient("mouth", keep=False)
    for client in (ear, mouth):
        client.connect(broker.port)
    ear.subscribe("noise", qos=0)
    mouth.publish("noise", b"heard", 0)
    ear.wait_for("noise", b"heard")
    assert mouth.exchange("fill", b"refused", 1) == QUOTA_EXCEEDED
    old = StubbornClient("old", MQTT_3_1_1, keep=False)
    old.connect(broker.port)
    with pytest.raises(GoneError):
        old.exchange("fill", b"closed", 1)
    for client in (ear, mouth):
        client.leave()
    tight.make_room()
    again = 0
    deadline = time.monotonic() + WAIT_S
    while publisher.unfinished or publish_one(publisher, sent + again) != 0:
        assert time.monotonic() < deadline, "it does not recover"
        again += 1
        publisher.listen(0.2)
    publisher.finish(WAIT_S)
    assert json.loads(broker.ask("/healthz"))["status"] == "ok"
    publisher.disconnect()
    broker.kill()
    check_all_is_there(broker.data, subscriber, accepted(publisher))


def test_a_broker_that_is_killed_on_a_full_disk_has_what_it_acknowledged(tight: TightDisk) -> None:
    broker = tight.broker
    subscriber = away("sub", broker.port, "fill")
    publisher = StubbornClient("pub", window=10)
    publisher.connect(broker.port)
    fill(publisher, broker)
    broker.kill()
    publisher.leave()
    if broker.data.parent.name == "disk":
        tight.make_room()
    again = BrokerProcess(broker.data).wait_until_it_listens()
    assert publisher.connect(again.port)
    publisher.finish(WAIT_S)
    publisher.disconnect()
    assert again.stop() == 0
    check_all_is_there(broker.data, subscriber, accepted(publisher))


# The other disk is too small for what may wait.
@pytest.mark.parametrize("tight", ["largest file"], indirect=True)
def test_what_nobody_waits_for_does_not_gather_without_bound_on_a_full_disk(
    tight: TightDisk,
) -> None:
    broker = tight.broker
    publisher = StubbornClient("pub", window=10)
    publisher.connect(broker.port)
    fill(publisher, broker)
    before = broker.memory_bytes
    frame = encode(Publish("noise", bytes(100_000)), MQTT_5)
    with socket.create_connection(("127.0.0.1", broker.port)) as loud:
        loud.sendall(encode(Connect("loud"), MQTT_5))
        for _ in range(2_000):
            loud.sendall(frame)
    assert broker.memory_bytes - before < 100 * MEBIBYTE
    tight.make_room()
    publisher.disconnect()


def test_with_little_space_qos_0_is_not_recorded_and_the_log_says_so(
    small_disk: Path, tmp_path: Path
) -> None:
    running = BrokerProcess(small_disk / "data", WITH_HTTP, errors=tmp_path / "stderr")
    broker = running.wait_until_it_listens()
    client = StubbornClient("client", keep=False)
    client.connect(broker.port)
    client.subscribe("noise", qos=0)
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file:
        while (free := shutil.disk_usage(small_disk).free) > 1_400_000:
            file.write(bytes(min(100_000, free - 1_300_000)))
            file.flush()
    until(lambda: broker.figure("nearcast_store_disk_stage") == 3, "there is little space")
    client.publish("noise", b"heard", 0)
    client.wait_for("noise", b"heard")
    assert client.exchange("kept", b"promised", 1) == 0
    assert json.loads(broker.ask("/healthz"))["status"] == "degraded"
    ballast.unlink()
    until(lambda: broker.figure("nearcast_store_disk_stage") == 0, "there is space again")
    until(lambda: '"ok"' in broker.ask("/healthz"), "it is healthy")
    client.publish("noise", b"recorded", 0)
    client.wait_for("noise", b"recorded")
    client.leave()
    assert broker.figure("nearcast_hub_unrecorded_total") == 1
    assert broker.stop() == 0
    rows = read_log(broker.data)
    assert [row.payload for row in rows if row.kind == "event"] == [b"promised", b"recorded"]
    reasons = [json.loads(row.data)["reason"] for row in rows if row.kind == "gap"]
    assert "1 events of QoS 0 were not recorded: the disk was full" in reasons


def away(name: str, port: int, topic: str) -> StubbornClient:
    """Subscribe to a topic, and leave."""
    client = StubbornClient(name)
    client.connect(port)
    client.subscribe(topic, qos=1)
    client.leave()
    return client


def fill(publisher: StubbornClient, broker: BrokerProcess) -> int:
    """Publish until something is refused or nothing is answered; return how many were sent."""
    sent = 0
    deadline = time.monotonic() + WAIT_S
    while QUOTA_EXCEEDED not in publisher.acknowledged.values():
        if "nothing can be kept" in broker.said and not publisher.has_room:
            break
        assert time.monotonic() < deadline, "the disk never was full"
        if publisher.has_room:
            publish(publisher, sent)
            sent += 1
        publisher.listen(0.005)
    return sent


def publish(publisher: StubbornClient, number: int) -> bytes:
    payload = (b"%d " % number) + bytes(50_000)
    publisher.publish("fill", payload, 1)
    return payload


def publish_one(publisher: StubbornClient, number: int) -> int:
    """Publish one message, and return how it was answered; -1 if it was not."""
    payload = publish(publisher, number)
    publisher.listen(0.5)
    return publisher.acknowledged.get(("fill", payload), -1)


def accepted(publisher: StubbornClient) -> list[int]:
    """The numbers that were acknowledged without a refusal."""
    codes = publisher.acknowledged.items()
    return sorted(number_of(payload) for (_, payload), code in codes if code != QUOTA_EXCEEDED)


def check_all_is_there(data: Path, subscriber: StubbornClient, wanted: list[int]) -> None:
    """Start once more; what was acknowledged comes to the subscriber and is in the log."""
    broker = BrokerProcess(data).wait_until_it_listens()
    try:
        assert subscriber.connect(broker.port)
        deadline = time.monotonic() + WAIT_S
        numbers: list[int] = []
        while len(set(numbers)) < len(wanted) and time.monotonic() < deadline:
            subscriber.listen(0.1)
            numbers = [number_of(got.payload) for got in subscriber.got]
        assert sorted(set(numbers)) == wanted
        subscriber.disconnect()
        assert broker.stop() == 0
    finally:
        broker.end()
    rows = read_log(data)
    logged = [number_of(row.payload) for row in rows if row.subject == "fill" and row.payload]
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert sorted(set(logged)) == wanted


def number_of(payload: bytes) -> int:
    return int(payload.partition(b" ")[0])


# At the start


def refusal(data: Path, errors: Path | None = None) -> str:
    """Start a broker that cannot start, and return what it says."""
    running = BrokerProcess(data, errors=errors)
    try:
        with pytest.raises(BrokerEndedError):
            running.wait_until_it_listens()
        assert running.process.returncode == 1
        assert "Traceback" not in running.said
        return running.said
    finally:
        running.end()


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a broker that ran three times: several segments, a session, all of it stored."""
    data = tmp_path_factory.mktemp("left") / "data"
    for life in range(3):
        broker = BrokerProcess(data).wait_until_it_listens()
        keeper = StubbornClient("keeper")
        keeper.connect(broker.port)
        keeper.subscribe("mine", qos=1)
        for number in range(20):
            keeper.publish("kept", b"%d %d" % (life, number), 1)
        keeper.finish()
        keeper.leave()
        assert broker.stop() == 0
    return data


@pytest.fixture
def used(left_behind: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(left_behind, tmp_path / "data"))


def test_a_directory_that_may_not_be_written_is_told(read_only: Path) -> None:
    said = refusal(read_only)
    assert str(read_only) in said
    assert "Read-only file system" in said


def test_a_disk_that_is_full_from_the_start_is_told(small_disk: Path) -> None:
    (small_disk / "data").mkdir()
    with pytest.raises(OSError, match="No space"):
        (small_disk / "ballast").write_bytes(bytes(49 * MEBIBYTE))
    said = refusal(small_disk / "data", small_disk.parent / "stderr")
    assert "no room left" in said or "No space" in said
    assert "Cannot listen" not in said


def test_data_that_another_broker_uses_are_left_alone(tmp_path: Path) -> None:
    first = BrokerProcess(tmp_path / "data").wait_until_it_listens()
    assert str(tmp_path / "data") in refusal(tmp_path / "data")
    client = StubbornClient("client", keep=False)
    client.connect(first.port)
    assert client.exchange("still", b"here", 1) == 0
    client.leave()
    assert first.stop() == 0


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "no database", "missing"])
def test_a_damaged_state_is_told_and_left_as_it_is(used: Path, damage: str) -> None:
    state = used / "brokers" / "local" / "state.sqlite"
    whole = state.read_bytes()
    match damage:
        case "truncated":
            state.write_bytes(whole[: len(whole) // 2])
        case "overwritten":
            state.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))
        case "no database":
            state.write_bytes(b"this is no database" * 1_000)
        case _:
            state.unlink()
    before = state.read_bytes() if state.exists() else b""
    said = refusal(used)
    assert str(state) in said
    assert (state.read_bytes() if state.exists() else b"") == before


def doctor_says(data: Path) -> dict[str, dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-m", "nearcast", "doctor", "--json", "--data", str(data)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {each["what"]: each for each in json.loads(done.stdout)}


def test_a_flipped_byte_is_never_delivered_and_the_broker_goes_on_without_it_if_asked(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    broker = BrokerProcess(data).wait_until_it_listens()
    away("sub", broker.port, "fill")
    publisher = StubbornClient("pub")
    publisher.connect(broker.port)
    for number in range(20):
        publisher.publish("fill", b"%d " % number + b"x" * 5_000, 1)
    publisher.finish()
    publisher.leave()
    # What is in use is checked too.
    assert doctor_says(data)["state of local"]["found"] == "as it was written"
    assert broker.stop() == 0
    state = data / "brokers" / "local" / "state.sqlite"
    content = bytearray(state.read_bytes())
    content[content.index(b"7 xxxxx") + 100] ^= 0x20
    state.write_bytes(content)
    said = refusal(data)
    assert "message 8" in said
    assert "nearcast up --discard-damaged" in said
    found = doctor_says(data)["state of local"]
    assert (found["state"], found["found"]) == ("missing", "damaged")
    assert "message 8" in found["advice"]
    broker = BrokerProcess(data, options=["--discard-damaged"]).wait_until_it_listens()
    try:
        assert "discarded: message 8" in broker.said
        subscriber = StubbornClient("sub")
        assert subscriber.connect(broker.port), "the session is lost"
        publisher.connect(broker.port)
        assert publisher.exchange("fill", b"99 last", 1) == 0
        subscriber.wait_for("fill", b"99 last")
        subscriber.leave()
        publisher.leave()
        assert broker.stop() == 0
    finally:
        broker.end()
    numbers = {number_of(got.payload) for got in subscriber.got}
    assert 7 not in numbers
    assert numbers >= {0, 1, 2, 3, 17, 18, 19, 99}
    assert all(set(got.payload.partition(b" ")[2]) <= set(b"xlast") for got in subscriber.got)
    assert doctor_says(data)["state of local"]["found"] == "as it was written"
    assert list(state.parent.glob("damaged-*/state.sqlite"))


def test_a_damaged_write_ahead_log_is_told_and_can_be_gone_on_without(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = BrokerProcess(data).wait_until_it_listens()
    client = StubbornClient("client")
    client.connect(broker.port)
    for number in range(50):
        assert client.exchange("kept", b"%d" % number, 1) == 0
    broker.kill()
    client.leave()
    log = data / "brokers" / "local" / "state.sqlite-wal"
    content = bytearray(log.read_bytes())
    content[200] ^= 1
    log.write_bytes(content)
    said = refusal(data)
    assert "acknowledged commits are missing" in said
    assert "frame 1 of the write-ahead log is damaged" in said
    assert bytes(content) == log.read_bytes()
    broker = BrokerProcess(data, options=["--discard-damaged"]).wait_until_it_listens()
    client = StubbornClient("another")
    client.connect(broker.port)
    assert client.exchange("kept", b"on", 1) == 0
    client.leave()
    assert broker.stop() == 0
    parts = list(LogReader(data / "brokers" / "local" / "log").read())
    rows = [row for part in parts if not isinstance(part, Gap) for row in rows_of(part)]
    assert rows[-1].seq > 50
    missing = sum(part.last_seq - part.first_seq + 1 for part in parts if isinstance(part, Gap))
    assert len(rows) + missing == rows[-1].seq


@pytest.mark.parametrize("damage", ["overwritten", "truncated", "missing"])
def test_a_damaged_segment_is_told_and_the_broker_goes_on(used: Path, damage: str) -> None:
    segments = sorted((used / "brokers" / "local" / "log").glob("*.parquet"))
    assert len(segments) > 1
    whole = segments[0].read_bytes()
    match damage:
        case "overwritten":
            segments[0].write_bytes(b"\0" * len(whole))
        case "truncated":
            segments[0].write_bytes(whole[: len(whole) // 2])
        case _:
            segments[0].unlink()
    broker = BrokerProcess(used).wait_until_it_listens()
    try:
        # What is inside is looked at by those who read it.
        if damage != "overwritten":
            assert "the log was damaged" in broker.said
            assert segments[0].name in broker.said
        keeper = StubbornClient("keeper")
        assert keeper.connect(broker.port)
        assert keeper.exchange("mine", b"goes on", 1) == 0
        keeper.wait_for("mine", b"goes on")
        keeper.leave()
        assert broker.stop() == 0
    finally:
        broker.end()
    parts = list(LogReader(used / "brokers" / "local" / "log").read())
    assert isinstance(parts[0], Gap)
    rows = [row for part in parts if not isinstance(part, Gap) for row in rows_of(part)]
    assert rows[0].seq == parts[0].last_seq + 1
    assert rows[-1].seq - rows[0].seq == len(rows) - 1
    assert any(row.payload == b"goes on" for row in rows)
