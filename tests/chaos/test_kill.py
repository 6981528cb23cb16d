"""kill -9 at any moment: nothing that was acknowledged is lost, and nothing of QoS 2 comes twice.

`NEARCAST_KILLS` says how often the broker is killed in all. Moments differ from
run to run, whatever the seed: the system has a say in them.
"""

import contextlib
import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.store import Row
from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5
from tests.chaos.workers import Worker, check_errors, until_with
from tests.support.broker_process import BrokerProcess
from tests.support.clients.stubborn_client import GoneError, StubbornClient
from tests.support.logs.broker_log import read_log
from tests.support.waiting import WAIT_S

KILLS = int(os.environ.get("NEARCAST_KILLS", "10"))


class Lives:
    """A broker that is killed at random moments and begins again on the same data and port."""

    def __init__(self, data: Path, chance: random.Random) -> None:
        self._data = data
        self._chance = chance
        self.broker = BrokerProcess(data).wait_until_it_listens()
        self.port = self.broker.port

    def die_and_begin_again(self) -> None:
        time.sleep(self._chance.uniform(0.02, 0.8))
        self.broker.kill()
        while self._chance.random() < 0.2:
            # Once more while it recovers.
            self.broker = BrokerProcess(self._data, port=self.port)
            time.sleep(self._chance.uniform(0.5, 1.5))
            self.broker.kill()
        self.broker = BrokerProcess(self._data, port=self.port).wait_until_it_listens()


@pytest.fixture
def lives(tmp_path: Path, chance: random.Random) -> Iterator[Lives]:
    living = Lives(tmp_path / "data", chance)
    yield living
    living.broker.end()


class Publisher(Worker):
    """Publishes numbers, by QoS 1 and 2 in turn, as fast as there is room for them."""

    def __init__(self, client: StubbornClient, port: int) -> None:
        super().__init__(client, port)
        self.published = Counter[str]()
        self.quiet = threading.Event()
        """Publish nothing more."""

    def step(self) -> None:
        client = self.client
        while client.has_room and not self.quiet.is_set():
            qos = 1 + sum(self.published.values()) % 2
            topic = f"load/{client.name}/{qos}"
            number = self.published[topic]
            # Counted before: a message that the connection did not take is sent again.
            self.published[topic] += 1
            client.publish(topic, b"%d" % number, qos)
        client.listen(0.02)


def test_nothing_acknowledged_is_lost_and_nothing_comes_twice(
    lives: Lives, tmp_path: Path, chance: random.Random
) -> None:
    publishers = [
        Publisher(StubbornClient(f"pub-{n}", version), lives.port)
        for n, version in enumerate((MQTT_5, MQTT_3_1_1, MQTT_5))
    ]
    listeners = [
        Worker(StubbornClient(f"sub-{n}", version), lives.port)
        for n, version in enumerate((MQTT_5, MQTT_3_1_1))
    ]
    for listener in listeners:
        listener.client.connect(lives.port)
        listener.client.subscribe("load/#", qos=2)
    workers = [*publishers, *listeners]
    for worker in workers:
        worker.start()
    for _ in range(KILLS * 3 // 5):
        lives.die_and_begin_again()
        check_errors(workers)
    for publisher in publishers:
        publisher.quiet.set()
    published = Counter[str]()
    for publisher in publishers:
        published.update(publisher.published)
    # What is missing is told below, by those who look closer.
    with contextlib.suppress(AssertionError):
        until_with(workers, lambda: not any(each.client.unfinished for each in publishers), "")
        until_with(workers, lambda: all(complete(each.client, published) for each in listeners), "")
    for worker in workers:
        worker.end()
    assert sum(published.values()) > 20 * KILLS
    for topic, count in published.items():
        for listener in listeners:
            check_received(listener.client, topic, count)
    assert lives.broker.stop() == 0
    check_log(tmp_path / "data", published)
    assert "Traceback" not in lives.broker.said


def complete(client: StubbornClient, published: Counter[str]) -> bool:
    seen = Counter(topic for topic, _ in {(got.topic, got.payload) for got in list(client.got)})
    return seen == published


def check_received(client: StubbornClient, topic: str, count: int) -> None:
    got = [int(each.payload) for each in client.got if each.topic == topic]
    once = list(dict.fromkeys(got))
    assert sorted(once) == list(range(count)), f"{client.name}: {topic} has lost messages"
    assert once == sorted(once), f"{client.name}: {topic} is out of order"
    if topic.endswith("/2"):
        assert got == once, f"{client.name}: {topic} has duplicates of QoS 2"


def check_log(data: Path, published: Counter[str]) -> None:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for row in numbered_rows(data):
        if row.kind == "event" and row.subject is not None:
            found[row.subject].append(int(row.payload or b""))
    assert set(found) == set(published)
    for topic, count in published.items():
        numbers = found[topic]
        once = list(dict.fromkeys(numbers))
        assert once == list(range(count)), f"the log of {topic} is not complete and in order"
        if topic.endswith("/2"):
            assert numbers == once, f"the log of {topic} has duplicates of QoS 2"


def numbered_rows(data: Path) -> list[Row]:
    rows = read_log(data)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    return rows


class Wishes:
    """What was asked to be kept: what of it was acknowledged, and what is in doubt."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.doubtful: dict[str, bytes] = {}

    def settle(self, name: str) -> None:
        self.kept[name] = self.doubtful.pop(name)

    def compare(self, found: dict[str, bytes]) -> None:
        """Check what is there against what was acknowledged; then nothing is in doubt."""
        for name in {*self.kept, *self.doubtful, *found}:
            value, kept = found.get(name, b""), self.kept.get(name, b"")
            either = (kept, self.doubtful.get(name, kept))
            assert value in either, f"{name} is {value!r}, not one of {either}"
            self.kept[name] = value
        self.doubtful.clear()


class Changer(threading.Thread):
    """Changes retained messages and subscriptions as fast as they are acknowledged."""

    def __init__(
        self, keeper: StubbornClient, chance: random.Random, retained: Wishes, wanted: Wishes
    ) -> None:
        super().__init__(daemon=True)
        self._keeper = keeper
        self._chance = chance
        self._retained = retained
        self._wanted = wanted
        self.changes = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while True:
                self._change()
                self.changes += 1
        except GoneError:
            pass
        except BaseException as error:
            self.error = error

    def _change(self) -> None:
        number = self._chance.randrange(12)
        stays = self._chance.random() < 0.7
        if self._chance.random() < 0.5:
            topic = f"kept/{number}"
            value = b"%d" % self._chance.randrange(1 << 30) if stays else b""
            self._retained.doubtful[topic] = value
            self._keeper.exchange(topic, value, 1 + number % 2, retain=True)
            self._retained.settle(topic)
            return
        topic = f"wanted/{number}"
        self._wanted.doubtful[topic] = b"yes" if stays else b""
        if stays:
            self._keeper.subscribe(topic, qos=1)
        else:
            self._keeper.unsubscribe(topic)
        self._wanted.settle(topic)


def test_retained_messages_and_subscriptions_survive(lives: Lives, chance: random.Random) -> None:
    retained, wanted = Wishes(), Wishes()
    keeper = StubbornClient("keeper")
    keeper.connect(lives.port)
    keeper.subscribe("marker")
    changes = 0
    for life in range(KILLS * 2 // 5):
        changer = Changer(keeper, chance, retained, wanted)
        changer.start()
        lives.die_and_begin_again()
        changer.join(WAIT_S)
        if changer.error is not None:
            raise changer.error
        changes += changer.changes
        watcher = StubbornClient("watcher", keep=False)
        watcher.connect(lives.port)
        under_way = dict(retained.doubtful)
        retained.compare(retained_messages(watcher))
        assert keeper.connect(lives.port), "the session is lost"
        # What was under way when the broker was killed has been sent again.
        keeper.finish()
        retained.kept.update(under_way)
        wanted.compare(subscriptions(keeper, watcher, b"%d" % life))
        watcher.disconnect()
    keeper.leave()
    assert changes > KILLS
    assert lives.broker.stop() == 0
    assert "Traceback" not in lives.broker.said


def retained_messages(watcher: StubbornClient) -> dict[str, bytes]:
    watcher.subscribe("kept/#", "end")
    watcher.publish("end", b"", 1)
    watcher.wait_for("end", b"")
    return {got.topic: got.payload for got in watcher.got if got.retain}


def subscriptions(keeper: StubbornClient, watcher: StubbornClient, mark: bytes) -> dict[str, bytes]:
    """Send a message to every topic, and see which of them come."""
    for number in range(12):
        watcher.publish(f"wanted/{number}", mark, 1)
    watcher.publish("marker", mark, 1)
    watcher.finish()
    keeper.wait_for("marker", mark)
    came = {got.topic for got in keeper.got if got.payload == mark}
    return dict.fromkeys(came - {"marker"}, b"yes")
