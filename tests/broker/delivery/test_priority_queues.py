"""Deliveries of several priorities: queued, dropped and told, withheld, counted, kept."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from nearcast.broker.operations.metrics import Metrics
from nearcast.broker.operations.priority_figures import priority_figures
from nearcast.broker.sessions.loss_reason import LossReason
from nearcast.core.propagation.outbox import WITHHELD
from nearcast.store import SubscriptionPut
from nearcast.wire.mqtt import Publish, user_properties
from tests.broker.delivery.priority_house import QUEUED, House, event, fill


def test_full_queues_survive_kill_9_with_priorities_and_deadlines(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.broker.delivery.priority_house", str(tmp_path)],
        stdout=subprocess.PIPE,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    waited = [tuple(each) for each in json.loads(done.stdout)]
    assert len(waited) == QUEUED
    assert {priority for _, priority, _ in waited} == {1, 2}
    assert any(deadline is not None for _, _, deadline in waited)

    house = House(tmp_path)
    assert house.waiting("reader") == waited
    house.connect("reader", clean=False)
    got = house.written["reader"]
    told = [int(dict(each.properties.user_properties)["nc-priority"]) for each in got]
    assert told == sorted(told)
    assert {each.payload.decode() for each in got} == {text for text, _, _ in waited}
    assert house.store is not None
    house.store.abandon()


def test_who_was_away_is_told_by_priority_although_its_queue_is_full() -> None:
    house = House()
    house.connect("reader")
    house.subscribe("reader", "$me/errors")
    fill_again(house)
    house.connect("reader", clean=False)

    got = [each for each in house.written["reader"] if each.topic == "$me/errors"]
    told = [json.loads(each.payload) for each in got]
    assert [(each["dropped"], each["priority"], each["reason"]) for each in told] == [
        (4, 3, "full"), (2, 2, "full"),
    ]  # fmt: skip
    assert set(told[0]) == {"error", "dropped", "priority", "reason"}
    assert told[0]["error"].startswith("4 messages were dropped on the way to this session")
    assert house.session("reader").losses is None


def fill_again(house: House) -> None:
    house.subscribe("reader", "news")
    house.leave("reader")
    for number in range(2 * QUEUED):
        house.deliver("reader", event(str(number)), 1 + number % 3)


def test_losses_of_a_connected_client_are_told_one_a_second() -> None:
    house = House()
    house.connect("reader")
    house.subscribe("reader", "$me/errors", 0)
    for priority in (1, 2):
        house.session("reader").lose(LossReason.FULL, 3, priority)
        house.session("reader").lose(LossReason.DEADLINE, 2, priority)
    house.hub.state.losers.add(house.session("reader"))
    counts = []
    for _ in range(8):
        house.sweep()
        counts.append(len(house.reads("reader")))
        house.now += 0.5

    assert counts == [1, 0, 1, 0, 1, 0, 1, 0]


def test_a_message_of_qos_0_that_is_late_is_dropped_and_told() -> None:
    house = House()
    house.connect("reader")
    house.subscribe("reader", "$me/errors", 0)
    house.subscribe("reader", "news")
    house.connect("writer")
    house.connections["reader"].block(True)
    for text, qos in (("late", 0), ("sent", 1)):
        raw = user_properties((("nc-deadline", "5"),))
        house.send("writer", Publish("news", text.encode(), qos, packet_id=qos, raw_properties=raw))
    house.now += 5.5
    house.connections["reader"].block(False)
    house.hub.state.touch(house.connections["reader"])
    house.tick()
    assert house.reads("reader") == ["sent"]

    house.sweep()
    (told,) = map(json.loads, house.reads("reader"))
    assert (told["dropped"], told["priority"], told["reason"]) == (1, 1, "deadline")


def test_what_was_handed_over_and_is_withheld_waits_unsent_and_is_counted() -> None:
    house = House()
    house.connect("reader")
    house.subscribe("reader", "news", 0)
    for qos in (0, 1):
        house.deliver("reader", event("held", qos=qos), WITHHELD)
        house.deliver("reader", event("low", qos=qos), 3)

    assert house.reads("reader") == ["low", "low"]
    assert house.waiting("reader") == [("held", WITHHELD, None)] * 2
    figures = priority_figures(house.hub.state, 3, house.now)
    assert figures["withheld_total"] == figures["withheld_waiting"] == 2
    assert figures['sent_total{priority="3"}'] == 2


def test_a_live_event_that_plain_messages_displaced_comes_when_there_is_room() -> None:
    house = House()
    house.connect("writer")
    house.connect("reader")
    house.subscribe("reader", "news")
    house.leave("reader")
    raw = user_properties((("nc-valid", "600"),))
    house.send("writer", Publish("news", b"live", 1, packet_id=1, raw_properties=raw))
    for number in range(QUEUED):
        house.send("writer", Publish("news", b"%d" % number, 1, packet_id=1))
    assert not house.hub.state.undelivered
    assert [text for text, _, _ in house.waiting("reader")] == list(map(str, range(QUEUED)))

    house.connect("reader", clean=False)
    house.tick()
    assert house.reads("reader") == [*map(str, range(QUEUED)), "live"]


def test_metrics_tell_priorities_by_label() -> None:
    house = House()
    fill(house)
    house.now += 7.0
    metrics = Metrics({"priority": lambda: priority_figures(house.hub.state, 3, house.now)})
    text = metrics.text()[0].decode()

    for line in (
        'nearcast_priority_waiting{priority="1"} 4.0',
        'nearcast_priority_waiting{priority="2"} 2.0',
        'nearcast_priority_waiting{priority="3"} 0.0',
        'nearcast_priority_sent_total{priority="1"} 0.0',
        'nearcast_priority_dropped_total{priority="2"} 2.0',
        'nearcast_priority_dropped_total{priority="3"} 4.0',
        'nearcast_priority_age_seconds{priority="1"} 7.0',
        "nearcast_priority_withheld_total 0.0",
    ):
        assert f"\n{line}\n" in text


def test_a_stored_vector_that_fits_no_more_is_dropped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As after an exchange with an older state, of a release that counted atoms otherwise."""
    house = House(tmp_path)
    house.connect("reader")
    house.subscribe("reader", "news", where="a = 1 OR b = 2", relevance="levels:3,1")
    house.leave("reader")
    assert house.store is not None
    (stored,) = (each for each in house.store.load() if isinstance(each, SubscriptionPut))
    texts = dict(stored.subscription.properties) | {"relevance": "levels:3"}
    changed = replace(stored.subscription, properties=tuple(texts.items()))
    house.store.commit([replace(stored, subscription=changed)], now=house.now)
    house.store.close()

    house = House(tmp_path)
    (kept,) = house.hub.engine.subscriptions.values()
    assert kept.relevance is None
    assert "a subscription is kept without its relevance" in caplog.text
    assert "has 1 values, and the filter has 2 atoms" in caplog.text
    assert house.store is not None
    house.store.close()
