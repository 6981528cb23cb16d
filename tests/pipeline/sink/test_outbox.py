"""A broker that is away holds up nobody else, and gets all that waited for it, once, in order."""

import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.pipeline.errors import PipelineError, PipelineInputError
from nearcast.pipeline.sink import interest, outbox
from nearcast.pipeline.sink.backlog import BacklogStatus
from nearcast.pipeline.sink.broker_link import borrowed, close_idle
from nearcast.pipeline.sink.data_sink import batch_writer, release, stage
from nearcast.pipeline.sink.interest import BrokerInterest
from nearcast.pipeline.sink.outbox import Outbox, close_outbox, log_timer, open_outbox
from nearcast.pipeline.sink.sink_options import SinkOptions
from nearcast.pipeline.sink.sink_rows import rows_by_broker
from nearcast.wire import handover
from nearcast.wire.handover import MOST_SUBJECTS, EventRow
from tests.support.broker_process import BrokerProcess
from tests.support.clients.stubborn_client import StubbornClient
from tests.support.logs.broker_log import count_rows
from tests.support.waiting import until

NAMES = ("east", "west")


class Brokers:
    """Two brokers of one data directory, each with a client whose session outlives its lives."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.running: dict[str, BrokerProcess] = {}
        self.clients = {name: StubbornClient(f"listener-{name}") for name in NAMES}
        for name in NAMES:
            self.start(name)
            self.clients[name].subscribe("told/#", qos=2)

    def start(self, name: str) -> None:
        errors = self.data.parent / f"{name}.stderr"
        broker = BrokerProcess(self.data, {"broker.name": name}, errors=errors)
        self.running[name] = broker.wait_until_it_listens()
        self.clients[name].connect(broker.port)

    def kill(self, name: str) -> None:
        self.clients[name].leave()
        self.running.pop(name).kill()

    def told(self, name: str, count: int) -> list[str]:
        """What a client got, once it has so many messages, and then nothing for a moment."""
        client = self.clients[name]

        def has_all() -> bool:
            client.listen(0.1)
            return len(client.got) >= count

        until(has_all, f"{count} messages at {name}")
        client.listen(0.3)
        return [got.payload.decode() for got in client.got]

    def events(self, name: str) -> int:
        """How many events are in the log of a broker, which writes all of it when it stops."""
        self.clients[name].leave()
        assert self.running.pop(name).stop() == 0
        count = count_rows(self.data, "event", name)
        self.start(name)
        return count

    def end(self) -> None:
        for client in self.clients.values():
            client.leave()
        for broker in self.running.values():
            broker.end()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def brokers(data: Path) -> Iterator[Brokers]:
    found = Brokers(data)
    yield found
    close_outbox(backlog(data))
    close_idle()
    found.end()


def backlog(data: Path) -> str:
    return str(data / "checkpoints" / "backlog")


def options(data: Path, epoch: int, **more: object) -> SinkOptions:
    given = {"path": data, "query": "told", "epoch": epoch, "backlog": backlog(data), "wait_s": 5}
    return SinkOptions.read({name: str(value) for name, value in (given | more).items()})


def rows(texts: list[str], *names: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {"broker": broker, "kind": "event", "id": text, "subject": "told/all",
             "payload": text.encode(), "qos": 2}
            for broker in names or NAMES
            for text in texts
        ]
    )  # fmt: skip


def tell(data: Path, epoch: int, *names: str, **more: object) -> list[str]:
    """Hand an epoch of three rows over, and return their texts."""
    texts = [f"{epoch}.{number}" for number in range(3)]
    chosen = options(data, epoch, **more)
    release(stage([rows(texts, *names)], chosen), chosen)
    return texts


def status(data: Path, broker: str) -> BacklogStatus:
    (found,) = [e for e in open_outbox(options(data, 0)).statuses() if e.broker == broker]
    return found


def test_one_broker_is_away_and_the_other_gets_everything(data: Path, brokers: Brokers) -> None:
    brokers.kill("west")
    texts = [text for epoch in range(5) for text in tell(data, epoch, wait_s=0.2)]
    assert brokers.told("east", 15) == texts
    until(lambda: bool(status(data, "west").problem), "it is known that one is away")
    waits = status(data, "west")
    assert (waits.rows, waits.full, waits.dropped_rows) == (15, False, 0)
    assert waits.bytes > 0
    assert waits.since is not None
    assert "broker west" in waits.problem
    assert status(data, "east") == BacklogStatus("east")

    brokers.start("west")
    assert brokers.told("west", 15) == texts
    until(lambda: status(data, "west") == BacklogStatus("west"), "nothing waits")
    later = tell(data, 5)
    assert brokers.told("west", 18) == texts + later


def test_an_epoch_that_is_done_again_after_a_kill_comes_once(data: Path, brokers: Brokers) -> None:
    brokers.kill("west")
    texts = tell(data, 0, wait_s=0.2)
    # Killed before Spark knew: the next life does it again, in other attempts.
    close_outbox(backlog(data))
    assert tell(data, 0, wait_s=0.2) == texts
    texts += tell(data, 1, wait_s=0.2)
    assert status(data, "west").rows == 6
    # Killed again, with tasks half way: what they wrote counts for nothing.
    stage([rows(["lost"])], options(data, 2))
    close_outbox(backlog(data))
    brokers.start("west")
    texts += tell(data, 2)
    for name in NAMES:
        assert brokers.told(name, 9) == texts
    # And once more, although both have it.
    tell(data, 2)
    texts += tell(data, 3)
    for name in NAMES:
        assert brokers.told(name, 12) == texts
    assert not list(Path(backlog(data)).glob("*/parts/*"))


def test_what_waits_is_sent_by_the_next_life_on_its_own(data: Path, brokers: Brokers) -> None:
    brokers.kill("west")
    texts = tell(data, 0, wait_s=0.2)
    close_outbox(backlog(data))
    brokers.start("west")
    open_outbox(options(data, 0))
    assert brokers.told("west", 3) == texts


def test_another_query_waits_behind_the_backlog_of_the_first(data: Path, brokers: Brokers) -> None:
    brokers.kill("west")
    texts = tell(data, 7, "west", wait_s=0.2)
    texts += tell(data, 0, "west", query="state built anew", wait_s=0.2)
    brokers.start("west")
    assert brokers.told("west", 6) == texts


def test_a_query_waits_while_a_backlog_is_full_and_says_so(data: Path, brokers: Brokers) -> None:
    brokers.kill("west")
    texts = tell(data, 0, wait_s=0.2, backlog_bytes=1)
    waiter = threading.Thread(target=lambda: texts.extend(tell(data, 1, wait_s=0.2)))
    waiter.start()
    until(lambda: status(data, "west").full, "the query waits")
    # The other broker has that epoch too; the query goes no further.
    assert brokers.told("east", 6) == ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]
    assert status(data, "west").rows == 3
    brokers.start("west")
    waiter.join(60)
    assert texts[3:] == ["1.0", "1.1", "1.2"]
    assert brokers.told("west", 6) == texts


def test_who_waits_for_room_is_told_when_the_pipeline_stops(data: Path, brokers: Brokers) -> None:
    brokers.kill("west")
    outbox = Outbox(options(data, 0, wait_s=0.2, backlog_bytes=1))
    outbox.release(stage([rows(["1"], "west")], options(data, 0)))
    stopper = threading.Timer(0.5, outbox.close)
    stopper.start()
    with pytest.raises(PipelineError, match="backlog of broker west was full"):
        outbox.release(stage([rows(["2"])], options(data, 1)))
    stopper.join()


def test_the_oldest_are_dropped_only_where_one_asked_for_it(data: Path, brokers: Brokers) -> None:
    brokers.kill("west")
    for epoch in range(3):
        tell(data, epoch, wait_s=0.2, backlog_bytes=1, backlog_full="drop-oldest")
    assert brokers.told("east", 9)[-1] == "2.2"
    assert (status(data, "west").rows, status(data, "west").dropped_rows) == (3, 6)
    brokers.start("west")
    assert brokers.told("west", 3) == ["2.0", "2.1", "2.2"]


def test_a_large_epoch_goes_in_slices_and_each_comes_once(
    data: Path, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "SLICE_BYTES", 1)
    monkeypatch.setattr(handover, "CHUNK_BYTES", 100)
    texts = [f"{number:05d}" for number in range(60)]
    brokers.kill("west")
    chosen = options(data, 0, wait_s=0.2)
    release(stage([rows(texts)], chosen), chosen)
    brokers.start("west")
    # Killed after some slices, again and again: what was released before is dropped.
    for _ in range(4):
        brokers.told("west", min(len(brokers.clients["west"].got) + 1, len(texts)))
        brokers.kill("west")
        brokers.start("west")
    until(lambda: status(data, "west") == BacklogStatus("west"), "nothing waits", within_s=90.0)
    tell(data, 0, wait_s=5)
    texts += tell(data, 1, wait_s=5)
    for name in NAMES:
        assert brokers.told(name, len(texts)) == texts


def test_a_broker_that_refuses_holds_up_nobody_else(data: Path, brokers: Brokers) -> None:
    chosen = options(data, 0, wait_s=5)
    bad = {"broker": "west", "kind": "event", "id": "1", "subject": "told/#", "payload": b"x"}
    release(stage([rows(["good"], "east"), pa.RecordBatch.from_pylist([bad])], chosen), chosen)
    assert brokers.told("east", 1) == ["good"]
    assert "refused" in status(data, "west").problem


def test_what_nobody_at_a_broker_wants_is_not_sent_there(data: Path, brokers: Brokers) -> None:
    brokers.clients["west"].unsubscribe("told/#")
    brokers.clients["west"].subscribe("told/later", qos=2)
    before = {name: brokers.events(name) for name in NAMES}
    texts = [text for epoch in range(4) for text in tell(data, epoch)]
    assert brokers.told("east", 12) == texts
    stays = [
        {"broker": name, "kind": "event", "id": "stays", "subject": "told/sign", "payload": b"sign",
         "qos": 2, "retain": True}
        for name in NAMES
    ]  # fmt: skip
    chosen = options(data, 4)
    release(stage([pa.RecordBatch.from_pylist(stays)], chosen), chosen)
    until(lambda: status(data, "west").rows == 0, "all was sent")
    brokers.clients["west"].subscribe("told/#", qos=2)
    assert brokers.told("west", 1) == ["sign"]
    # Each told row was an event of every log before.
    after = {name: brokers.events(name) for name in NAMES}
    assert {name: after[name] - before[name] for name in NAMES} == {"east": 13, "west": 1}
    later = tell(data, 5)
    assert brokers.told("west", 4) == ["sign", *later]


def test_a_broker_that_does_not_know_the_question_gets_everything(
    data: Path, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = MOST_SUBJECTS + 1
    # A broker refuses a question for more subjects than it takes.
    monkeypatch.setattr(interest, "MOST_SUBJECTS", count)
    chance = Random(3)
    found = [
        {"broker": "west", "kind": "event", "id": str(n), "subject": f"other/{chance.random()}"}
        for n in range(count)
    ]
    place = options(data, 0).place("west")
    with borrowed(place, 30.0) as link:
        ((_, rows),) = rows_by_broker(pa.RecordBatch.from_pylist(found))
        assert BrokerInterest("west").wanted(rows, link) == rows
        some = BrokerInterest("west")
        assert some.wanted(rows[:10], link) == []
        wanted = EventRow("x", "told/this")
        assert some.wanted([*rows[:10], wanted], link) == [wanted]


def test_a_write_of_spark_itself_takes_no_backlog(data: Path) -> None:
    given = {"path": str(data), "backlog": backlog(data)}
    with pytest.raises(PipelineInputError, match="hand_over"):
        batch_writer(None, given, False)  # type: ignore[arg-type]
    with pytest.raises(PipelineInputError, match="drop-oldest"):
        SinkOptions.read({**given, "backlog_full": "forget"})


def due(broker: str, seq: int, time: float | None) -> dict[str, object]:
    return {"broker": broker, "kind": "due", "id": f"{seq}", "subject": "", "time": time}


def test_the_timer_of_a_log_is_that_of_its_last_row(data: Path) -> None:
    chosen = options(data, 0)
    soon = math.ceil(time.time()) + 60.0
    told = [
        due("east", 20, soon + 9), due("east", 20, soon), due("east", 20, None),
        due("east", 10, soon - 9), due("west", 30, None), due("west", 10, soon),
    ]  # fmt: skip
    tasks = [pa.RecordBatch.from_pylist(told[:2]), pa.RecordBatch.from_pylist(told[2:])]
    release([part for each in tasks for part in stage([each], chosen)], chosen)
    timers = open_outbox(chosen).timers
    assert timers.first(log_timer("told", "east")) == soon
    assert timers.first(log_timer("told", "west")) is None
    later = pa.RecordBatch.from_pylist([due("east", 21, None)], schema=tasks[0].schema)
    release(stage([later], chosen), chosen)
    assert timers.first(log_timer("told", "east")) is None
    close_outbox(backlog(data))
