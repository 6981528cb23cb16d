"""Rows of a query reach MQTT clients once each, over real brokers, real Spark and kill -9."""

import json
import random
import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.broker.auth.credentials.passwords import hashed
from nearcast.broker.auth.credentials.users_file import Account, write_users
from nearcast.pipeline.errors import LinkError, PipelineInputError
from nearcast.pipeline.sink.broker_address import BrokerAccess, BrokerAddress, entrance_of
from nearcast.pipeline.sink.broker_link import BrokerLink, borrowed, close_idle
from nearcast.pipeline.sink.data_sink import SinkOptions, abort, hand_over, release, stage
from nearcast.pipeline.sink.sink_rows import SINK_SCHEMA, bounded, rows_by_broker
from nearcast.wire.handover import EventRow, Release, manifest_bytes
from tests.support.broker_process import BrokerProcess
from tests.support.clients.stubborn_client import StubbornClient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WITHIN_S = 20.0


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sink") / "data"


@pytest.fixture(scope="module")
def brokers(data: Path) -> Iterator[dict[str, BrokerProcess]]:
    running = {
        name: BrokerProcess(data, {"broker.name": name}, errors=data.parent / f"{name}.stderr")
        for name in ("east", "west")
    }
    yield {name: broker.wait_until_it_listens() for name, broker in running.items()}
    for broker in running.values():
        broker.end()


_clients: list[StubbornClient] = []


@pytest.fixture(autouse=True)
def _no_connection_outlives_a_test() -> Iterator[None]:
    yield
    close_idle()
    for client in _clients:
        client.leave()
    _clients.clear()


def listener(broker: BrokerProcess, name: str, *topics: str, qos: int = 2) -> StubbornClient:
    client = StubbornClient(name)
    _clients.append(client)
    client.connect(broker.port)
    if topics:
        client.subscribe(*topics, qos=qos)
    return client


def payloads(client: StubbornClient, count: int) -> list[bytes]:
    """What came, once `count` messages did, and then nothing for a moment."""
    deadline = time.monotonic() + WITHIN_S
    while len(client.got) < count and time.monotonic() < deadline:
        client.listen(0.1)
    client.listen(0.2)
    return [got.payload for got in client.got]


def events(texts: list[str], topic: str, broker: str = "east") -> pa.RecordBatch:
    return batch(
        [
            {"broker": broker, "kind": "event", "id": f"{topic} {text}", "subject": topic,
             "payload": text.encode(), "qos": 2}
            for text in texts
        ]
    )  # fmt: skip


def batch(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows)


def options(data: Path, **more: object) -> SinkOptions:
    return SinkOptions.read({"path": str(data)} | {name: str(each) for name, each in more.items()})


# Reading batches


def test_rows_are_read_as_they_are_written() -> None:
    chance = random.Random(4)
    recipient = pa.struct(
        [("subscriptions", pa.list_(pa.string())), ("session", pa.string()),
         ("priority", pa.int32()), ("replayed", pa.bool_())]
    )  # fmt: skip
    pair = pa.struct([("name", pa.string()), ("value", pa.string())])
    schema = pa.schema(
        [("broker", pa.string()), ("kind", pa.string()), ("id", pa.string()),
         ("subject", pa.string()), ("time", pa.float64()), ("payload", pa.binary()),
         ("qos", pa.int32()), ("recipients", pa.list_(recipient)), ("publisher", pa.string()),
         ("properties", pa.list_(pair)), ("lat", pa.float64()), ("lon", pa.float64()),
         ("about", pa.list_(pa.string()))]
    )  # fmt: skip
    rows: list[dict[str, Any]] = []
    for number in range(300):
        people = [
            {"session": f"s{each}", "subscriptions": [f"s{each}\0{t}" for t in "ab"[: each % 3]],
             "priority": chance.choice((None, 1, 7)), "replayed": chance.choice((None, True))}
            for each in range(chance.choice((0, 1, 5)))
        ]  # fmt: skip
        rows.append(
            {"broker": chance.choice("ew"), "kind": chance.choice(("event", "delivery")),
             "id": str(number), "subject": "t", "time": float(number),
             "payload": chance.choice((None, b"x")), "qos": chance.choice((None, 0, 2)),
             "recipients": chance.choice((None, people)), "publisher": chance.choice((None, "a")),
             "properties": chance.choice((None, [], [{"name": "n", "value": "v"}])),
             "lat": 1.0, "lon": 2.0, "about": chance.choice((None, [], ["ann", "ben"]))}
        )  # fmt: skip
    whole = pa.RecordBatch.from_pylist(rows, schema)
    # A slice has offsets of its own.
    found = dict(rows_by_broker(whole.slice(20, 250)))
    for broker in "ew":
        wanted = [
            row for row in rows[20:270]
            if row["broker"] == broker and (row["kind"] == "event" or row["recipients"])
        ]  # fmt: skip
        assert [row.id for row in found[broker]] == [row["id"] for row in wanted]
        for row, plain in zip(found[broker], wanted, strict=True):
            assert row.payload == (plain["payload"] or b"")
            assert row.publisher == (plain["publisher"] or "$pipeline")
            assert (row.lat, row.lon, row.time) == (1.0, 2.0, plain["time"])
            assert row.headers == (b"&\0\1n\0\1v" if plain["properties"] else b"")
            default = 1 if plain["kind"] == "event" else 0
            assert row.qos == (default if plain["qos"] is None else plain["qos"])
            if isinstance(row, EventRow):
                assert row.about == tuple(plain["about"] or ())
            if plain["kind"] == "delivery":
                assert [tuple(each) for each in row.recipients] == [  # type: ignore[arg-type, union-attr]
                    (each["session"], each["subscriptions"], each["priority"] or 1,
                     each["replayed"] or False)
                    for each in plain["recipients"]
                ]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_batch_is_sliced_so_that_few_recipients_are_objects_at_once(seed: int) -> None:
    draw = random.Random(seed)
    recipient = pa.struct([("session", pa.string())])
    sizes = [draw.choice((0, 1, 5, 30, None)) for _ in range(100)]
    lists = [None if size is None else [{"session": "s"}] * size for size in sizes]
    whole = pa.record_batch(
        [list(range(100)), pa.array(lists, pa.list_(recipient))], names=["id", "recipients"]
    ).slice(3, 90)

    parts = list(bounded(whole, 20))

    assert [name for part in parts for name in part.column("id").to_pylist()] == list(range(3, 93))
    for part in parts:
        count = sum(len(each or ()) for each in part.column("recipients").to_pylist())
        assert count <= 20 or part.num_rows == 1


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"broker": "east", "kind": "event", "id": "1"}, "column 'subject'"),
        ({"broker": None, "kind": "event", "id": "1", "subject": "t"}, "no 'broker'"),
        ({"broker": "e", "kind": "other", "id": "1", "subject": "t"}, "kind 'other'"),
    ],
)
def test_rows_that_cannot_be_handed_over_say_why(row: dict[str, object], why: str) -> None:
    with pytest.raises(PipelineInputError, match=why):
        list(rows_by_broker(batch([row])))


def test_options_that_cannot_be_say_why() -> None:
    with pytest.raises(PipelineInputError, match="path"):
        SinkOptions.read({"query": "q"})
    with pytest.raises(PipelineInputError, match="numbers"):
        SinkOptions.read({"path": "x", "epoch": "seven"})


# Over real brokers


def test_each_broker_gets_its_rows_and_a_repeated_epoch_comes_to_nothing(
    data: Path, brokers: dict[str, BrokerProcess]
) -> None:
    clients = {name: listener(broker, "two", "two/#") for name, broker in brokers.items()}
    chosen = options(data, query="two", epoch=4)
    for _ in range(3):
        batches = [events(["1", "2"], "two/a"), events(["3"], "two/b", "west")]
        parts = stage(batches, chosen)
        assert {part.broker for part in parts} == {"east", "west"}
        release(parts, chosen)
    assert payloads(clients["east"], 2) == [b"1", b"2"]
    assert payloads(clients["west"], 1) == [b"3"]


def test_deliveries_reach_the_sessions_they_name(
    data: Path, brokers: dict[str, BrokerProcess]
) -> None:
    ann = listener(brokers["east"], "ann", "named/#", qos=1)
    listener(brokers["east"], "ben", "named/#", qos=1).leave()
    names = [("ann", "ann\0named/#"), ("ben", "ben\0named/#"), ("gone", "gone\0named/#")]
    row: dict[str, object] = {
        "broker": "east", "kind": "delivery", "id": "1", "subject": "named/x", "time": 1.0,
        "payload": b"hello", "publisher": "cleo", "qos": 1,
        "recipients": [{"session": who, "subscriptions": [which]} for who, which in names],
    }  # fmt: skip
    chosen = options(data, query="named", epoch=0)
    release(stage([batch([row])], chosen), chosen)
    assert payloads(ann, 1) == [b"hello"]
    ben = listener(brokers["east"], "ben")
    assert payloads(ben, 1) == [b"hello"]


def test_one_connection_serves_many_epochs(data: Path, brokers: dict[str, BrokerProcess]) -> None:
    for epoch in range(20):
        chosen = options(data, query="many", epoch=epoch)
        release(stage([events([str(epoch)], "many")], chosen), chosen)
    with borrowed(options(data).place("east"), WITHIN_S) as link:
        assert link.connections == 1


def test_what_was_aborted_cannot_be_released(data: Path, brokers: dict[str, BrokerProcess]) -> None:
    chosen = options(data, query="aborted", epoch=0)
    parts = stage([events(["1"], "aborted")], chosen)
    abort(parts, chosen)
    with pytest.raises(LinkError, match="is not staged"):
        release(parts, chosen)


def test_a_broker_that_stays_away_fails_the_epoch(data: Path, tmp_path: Path) -> None:
    chosen = options(tmp_path, query="away", epoch=0, wait_s=0.3)
    with pytest.raises(LinkError, match=r"nowhere, tried for 0.3 s: .*pipeline.token"):
        stage([events(["1"], "away", "nowhere")], chosen)


def test_who_has_not_the_token_is_told_so_at_once(
    data: Path, brokers: dict[str, BrokerProcess]
) -> None:
    url = f"mqtt://$pipeline:guess@127.0.0.1:{brokers['east'].port}"
    link = BrokerLink(BrokerAddress("", "east", url), wait_s=5.0)
    with pytest.raises(LinkError, match=r"does not let us in: .*token"):
        link.send("x", b"")
    token = data / "brokers" / "east" / "pipeline.token"
    assert token.stat().st_mode & 0o777 == 0o600


def test_a_superuser_may_hand_over_from_elsewhere(tmp_path: Path) -> None:
    users, password = tmp_path / "users.toml", hashed(b"secret")
    write_users(
        users,
        {"boss": Account("boss", password, True), "guest": Account("guest", password)},
    )
    (tmp_path / "password").write_text("secret\n")
    broker = BrokerProcess(tmp_path / "data", {"doors.users": users}).wait_until_it_listens()
    try:
        client = listener(broker, "ann", "far")
        url = f"mqtt://127.0.0.1:{broker.port}"
        for user, right in (("guest", False), ("boss", True)):
            given = {"url": url, "user": user, "password_file": tmp_path / "password", "epoch": 0}
            chosen = SinkOptions.read({name: str(value) for name, value in given.items()})
            if right:
                release(stage([events(["1"], "far", "any")], chosen), chosen)
            else:
                with pytest.raises(LinkError, match="only the pipeline"):
                    stage([events(["1"], "far", "any")], chosen)
        assert payloads(client, 1) == [b"1"]
    finally:
        broker.end()


MOST_EPOCHS = 150


def test_kill_9_at_any_moment_neither_loses_nor_repeats(tmp_path: Path) -> None:
    data, chance = tmp_path / "data", random.Random(2)
    running = [BrokerProcess(data, {"broker.name": "east"}).wait_until_it_listens()]
    stop = threading.Event()

    def kill_now_and_then() -> None:
        for _ in range(3):
            if stop.wait(chance.uniform(0.2, 1.0)):
                return
            running[-1].kill()
            # On another port: the broker's directory says which.
            running.append(BrokerProcess(data, {"broker.name": "east"}).wait_until_it_listens())

    client = listener(running[0], "ann", "killed/#", qos=2)
    killer = threading.Thread(target=kill_now_and_then, daemon=True)
    killer.start()
    wanted: list[bytes] = []
    epoch = 0
    try:
        while killer.is_alive() or epoch < 10:
            if epoch >= MOST_EPOCHS:
                # More than a session's queue takes while its client is away would be dropped.
                killer.join(0.05)
                continue
            texts = [f"{epoch}.{number}" for number in range(40)]
            wanted += [text.encode() for text in texts]
            chosen = options(data, query="killed", epoch=epoch, wait_s=60)
            release(stage([events(texts, f"killed/{epoch % 3}")], chosen), chosen)
            epoch += 1
        killer.join(60)
        client.connect(running[-1].port)
        assert Counter(payloads(client, len(wanted))) == Counter(wanted)
    finally:
        stop.set()
        killer.join(60)
        running[-1].end()


# In Spark


def table(spark: "SparkSession", rows: pa.RecordBatch) -> "DataFrame":
    return spark.createDataFrame(rows.to_pandas())


def write_rows(directory: Path, number: int, rows: pa.RecordBatch) -> None:
    import pyarrow.parquet as pq

    directory.mkdir(exist_ok=True)
    partial = directory / f".{number}.parquet"
    pq.write_table(pa.Table.from_batches([rows]), partial)
    partial.rename(directory / f"{number}.parquet")


def until_done(start: Callable[[], object]) -> None:
    """Run a query until it has taken all there is; as when it is restarted after a failure."""
    query = start()
    try:
        query.processAllAvailable()  # type: ignore[attr-defined]
    finally:
        query.stop()  # type: ignore[attr-defined]


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died before it noted that the last batch is done."""
    commits = checkpoint / "commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


def test_a_stream_is_handed_over_once_though_an_epoch_is_repeated(
    spark: "SparkSession", data: Path, brokers: dict[str, BrokerProcess], tmp_path: Path
) -> None:
    client = listener(brokers["east"], "stream", "stream")
    incoming, checkpoint = tmp_path / "incoming", tmp_path / "checkpoint"
    write_rows(incoming, 0, events(["1", "2"], "stream"))
    schema = spark.read.parquet(str(incoming)).schema

    def start(at: Path = checkpoint) -> object:
        files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        rows = files.parquet(str(incoming)).repartition(2)
        writer = rows.writeStream.format("nearcast").option("query", "stream")
        return writer.option("checkpointLocation", str(at)).start(str(data))

    write_rows(incoming, 1, events(["3"], "stream"))
    until_done(start)
    forget_last_commit(checkpoint)
    write_rows(incoming, 2, events(["4"], "stream"))
    until_done(start)
    assert sorted(payloads(client, 4)) == [b"1", b"2", b"3", b"4"]
    # Another checkpoint is another query: its epochs count from 0 again, and are not repeats.
    shutil.rmtree(incoming)
    write_rows(incoming, 0, events(["5"], "stream"))
    until_done(lambda: start(tmp_path / "another"))
    assert sorted(payloads(client, 5)) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_batch_of_foreach_batch_is_handed_over_once_though_tasks_and_batches_fail(
    spark: "SparkSession", data: Path, brokers: dict[str, BrokerProcess], tmp_path: Path
) -> None:
    client = listener(brokers["east"], "batches", "batches")
    incoming, flag = tmp_path / "incoming", tmp_path / "fail"
    write_rows(incoming, 0, events([str(n) for n in range(50)], "batches"))
    schema = spark.read.parquet(str(incoming)).schema
    failures = ["task", "after"]

    def half_way(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            yield rows.slice(0, rows.num_rows // 2)
            if flag.exists():
                raise RuntimeError("this task fails half way")
            yield rows.slice(rows.num_rows // 2)

    def hand(frame: "DataFrame", epoch: int) -> None:
        flag.unlink(missing_ok=True)
        if failures and failures[0] == "task":
            failures.pop(0)
            flag.touch()
        rows = frame.repartition(2).mapInArrow(half_way, schema)
        hand_over(rows, {"path": str(data), "query": "batches"}, epoch)
        if failures and failures[0] == "after":
            failures.pop(0)
            raise RuntimeError("this driver fails before Spark knows that the batch is done")

    def start() -> object:
        rows = spark.readStream.schema(schema).parquet(str(incoming))
        location = str(tmp_path / "checkpoint")
        return rows.writeStream.foreachBatch(hand).option("checkpointLocation", location).start()

    for _ in range(2):
        with pytest.raises(Exception, match=r"this (task|driver) fails"):
            until_done(start)
    until_done(start)
    assert not failures
    assert Counter(payloads(client, 50)) == Counter(str(n).encode() for n in range(50))


def test_a_frame_is_written_once_or_as_often_as_one_likes(
    spark: "SparkSession", data: Path, brokers: dict[str, BrokerProcess]
) -> None:
    client = listener(brokers["east"], "frames", "frames/#")
    once = table(spark, events(["1"], "frames/once"))
    for _ in range(2):
        writer = once.write.format("nearcast").option("query", "frames").option("epoch", 3)
        writer.mode("append").save(str(data))
    for number in range(2):
        often = table(spark, events([f"often {number}"], "frames/often"))
        often.write.format("nearcast").mode("append").save(str(data))
    assert sorted(payloads(client, 3)) == [b"1", b"often 0", b"often 1"]


def test_the_schema_is_one_that_spark_knows(spark: "SparkSession") -> None:
    frame = spark.createDataFrame([], SINK_SCHEMA)
    assert frame.columns[:4] == ["broker", "kind", "id", "subject"]


def test_a_link_has_one_user_at_a_time(data: Path, brokers: dict[str, BrokerProcess]) -> None:
    place = BrokerAddress(str(data), "east")
    with borrowed(place, WITHIN_S) as one, borrowed(place, WITHIN_S) as other:
        assert one is not other
        for number, link in enumerate((one, other)):
            link.send(Release("users", number).topic, manifest_bytes([]))
            link.flush()
    with borrowed(place, WITHIN_S) as again:
        assert again in (one, other)


def test_a_broker_that_listens_everywhere_is_found_by_its_machine(tmp_path: Path) -> None:
    directory = tmp_path / "brokers" / "b"
    directory.mkdir(parents=True)
    (directory / "pipeline.token").write_text("secret\n")
    for host, machine, wanted in (
        ("0.0.0.0", socket.gethostname(), "localhost"),
        ("::", "elsewhere.example", "elsewhere.example"),
        ("10.0.0.7", "elsewhere.example", "10.0.0.7"),
    ):
        told = {"host": host, "port": 7, "scheme": "mqtts", "machine": machine}
        (directory / "address.json").write_text(json.dumps(told))
        found = entrance_of(BrokerAddress(str(tmp_path), "b"))
        assert found == BrokerAccess(wanted, 7, True, "$pipeline", b"secret")


def test_the_address_is_there_while_a_broker_listens(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", {"broker.name": "b"}).wait_until_it_listens()
    path = tmp_path / "data" / "brokers" / "b" / "address.json"
    told = json.loads(path.read_text())
    assert (told["host"], told["port"]) == ("127.0.0.1", broker.port)
    assert broker.stop() == 0
    assert not path.exists()
