"""A full queue drops what is oldest, but what is live comes when there is room again."""

from pathlib import Path

import pytest

from nearcast.broker.config.settings import Limits, RecordSection, Settings
from nearcast.core.engine.engine import Engine
from nearcast.core.model.inputs import Published, QueueDrained, Undelivered
from nearcast.store import input_of, is_input
from tests.support.clients.talker import Talker
from tests.support.logs.broker_log import read_log
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until

MOST = 4


def start(data: Path) -> RunningBroker:
    limits = Limits(queued=MOST)
    return RunningBroker(Settings(limits=limits, record=RecordSection()), data)


def reader_of(broker: RunningBroker, kind: str) -> Talker:
    """Somebody who wants news, and goes away."""
    reader = Talker(broker, "reader", expiry=600)
    if kind == "plain":
        reader.subscribes("news/#")
    elif kind == "words":
        reader.wants("news/#", where="n >= 0")
    else:
        reader.names("n", subject="news/#", envelope=True, qos=1)
    broker.lose(reader.client)
    return reader


def numbers(reader: Talker, least: int = 0) -> list[int]:
    """The numbers of what comes; live events come in slices of half a queue, over some ticks."""
    found: list[int] = []

    def have_come() -> bool:
        found.extend(int(message.topic.rpartition("/")[2]) for message in reader.gets())
        return len(found) >= least

    until(have_come, "all that waited came")
    return found


@pytest.mark.parametrize("kind", ["plain", "words", "envelope"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
def test_a_live_event_that_found_no_room_comes_later(
    tmp_path: Path, kind: str, restarts: bool
) -> None:
    broker = start(tmp_path)
    reader_of(broker, kind)
    publisher = Talker(broker, "publisher")
    for number in range(3 * MOST):
        publisher.says(f"news/{number}", b'{"n": %d}' % number, object=str(number), valid="600")
        publisher.says(f"news/{100 + number}", b'{"n": 0}')
    # It would have come, and is there no more.
    publisher.says("news/11", b"", object="11", valid="0")
    if restarts:
        broker.validate()
        broker.stop()
        broker = start(tmp_path)

    back = Talker(broker, "reader", clean=False, expiry=600)
    # A plain subscriber gets the withdrawal in addition to what it withdraws.
    waited = [110, 11, 111, 11] if kind == "plain" else [10, 110, 111, 11]
    live = [number for number in range(11) if number not in waited]
    assert numbers(back, MOST + len(live)) == waited + live
    assert numbers(back) == []
    again = Talker(broker, "reader", clean=False, expiry=600)
    assert again.gets() == []
    broker.validate()
    broker.stop()
    agree(tmp_path)


def test_a_retained_message_that_found_no_room_is_gone_as_with_any_broker(tmp_path: Path) -> None:
    broker = start(tmp_path)
    reader_of(broker, "plain")
    publisher = Talker(broker, "publisher")
    for number in range(2 * MOST):
        publisher.says(f"news/{number}", b"x", retain=True)

    back = Talker(broker, "reader", clean=False, expiry=600)

    assert numbers(back, MOST) == list(range(MOST, 2 * MOST))
    broker.validate()
    broker.stop()


def agree(data: Path) -> None:
    """What was not delivered is in the log, and whoever plays it decides the same."""
    engine, kinds, sent = Engine(), [], 0
    for row in read_log(data):
        if not is_input(row.kind):
            continue
        value = input_of(row)
        outcome = engine.play([value], [row.ingested], again=True)
        kinds.append(type(value))
        if not isinstance(value, Published):
            sent += sum(each.owner == "reader" for each in outcome.deliveries)
    assert Undelivered in kinds
    assert QueueDrained in kinds
    assert sent >= 9
