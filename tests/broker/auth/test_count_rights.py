"""`count()` knows of nothing that its asker may not subscribe to, or would not have got."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.broker.config.settings import AuthSection, RecordSection, Settings
from nearcast.broker.operations.explanations.explanation import explain
from nearcast.pipeline.decide.player import Player
from nearcast.store import broker_directory
from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5, ReasonCode
from tests.support.clients.talker import METRES_NORTH, Talker
from tests.support.clients.talker import told as about
from tests.support.logs.broker_log import read_log
from tests.support.running_broker import RunningBroker

LAT, LON = 53.35, -6.26
DENIED = """
[[rule]]
permission = "deny"
who = "node:eve"
action = "subscribe"
topics = ["secret/#"]
"""
OPEN = DENIED.replace("secret", "elsewhere")
PIN = 1234


class House:
    """A broker with a file of rules, which may be stopped and started again."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.running: RunningBroker | None = None
        self.rules(DENIED)

    @property
    def broker(self) -> RunningBroker:
        assert self.running is not None
        return self.running

    def start(self) -> RunningBroker:
        """Start the broker; the one before is stopped."""
        if self.running is not None:
            self.running.validate()
            self.running.stop()
        settings = Settings(
            doors=AuthSection(rules=str(self.data / "rules.toml")),
            record=RecordSection(("unkept/#",)),
        )
        self.running = RunningBroker(settings, self.data)
        return self.running

    def rules(self, text: str) -> None:
        """Put other rules in force."""
        (self.data / "rules.toml").write_text(text)
        if self.running is not None:
            self.running.reload()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    house.start()
    yield house
    house.broker.validate()
    house.broker.stop()


def asks(asker: Talker, counted: str) -> bool:
    """Whether a filter that counts holds for somebody, by a topic of their own."""
    asker.wants(f"mine/{asker.node}", where=counted)
    return told(asker)


def told(asker: Talker) -> bool:
    """The same of what was asked before."""
    asker.says(f"mine/{asker.node}", b"now")
    return bool(asker.payloads())


@pytest.mark.parametrize("version", [MQTT_5, MQTT_3_1_1])
def test_a_secret_cannot_be_read_by_bisection(house: House, version: int) -> None:
    vault, eve = Talker(house.broker, "vault"), Talker(house.broker, "eve", version)
    vault.says("secret/x", json.dumps({"pin": PIN}).encode())
    vault.says("open/x", json.dumps({"pin": PIN}).encode())
    reads = Talker(house.broker, "reads", version)

    for pattern in ("secret/x", "secret/#", "+/x", "#"):
        for guess in (0, PIN - 1, PIN, 9_999):
            counted = f"count('{pattern}', 'pin <= {guess} AND event.subject = ''secret/x''')"
            assert asks(eve, f"{counted} = 0")
            assert not asks(eve, f"{counted} > 0 OR {counted} IS NULL")
            assert asks(reads, f"{counted} > 0") == (guess >= PIN)
    assert asks(eve, f"count('+/x', 'pin = {PIN}') = 1")


def test_events_that_were_not_meant_for_the_asker_are_not_counted(house: House) -> None:
    """A target that moves is where it was when the event came in; the asker is where it is."""
    near, far = (LAT, LON), (LAT + 5_000 * METRES_NORTH, LON)
    asker, car = Talker(house.broker, "asker"), Talker(house.broker, "car")
    asker.moves(*far)
    car.moves(*near)
    car.says("news", b"{}", to="circle:me,500")
    car.says("news", b"{}", to=f"circle:{LAT},{LON},500")
    car.says("news", b"{}")
    car.moves(*far)

    assert asks(asker, "count('news', '') = 1")
    asker.moves(*near)
    assert asks(asker, "count('news', '') = 3")


def test_revoked_and_granted_rights_count_at_once(house: House) -> None:
    vault, eve = Talker(house.broker, "vault"), Talker(house.broker, "eve")
    vault.says("secret/x", b"{}")
    assert not asks(eve, "count('secret/x', '') = 1")
    house.rules(OPEN)
    assert told(eve)
    house.rules(DENIED)
    assert not told(eve)


def test_rights_that_were_revoked_while_away_count_when_somebody_is_back(house: House) -> None:
    house.rules(OPEN)
    vault = Talker(house.broker, "vault")
    eve = Talker(house.broker, "eve", clean=False, expiry=3_600)
    vault.says("secret/x", b"{}")
    assert asks(eve, "count('secret/x', '') = 1")
    house.broker.lose(eve.client)
    vault.says("mine/eve", b"1")
    house.rules(DENIED)
    vault.says("mine/eve", b"2")
    assert Talker(house.broker, "eve", clean=False, expiry=3_600).payloads() == [b"1"]


def test_what_may_be_counted_outlives_a_restart(house: House) -> None:
    """Also while its owner is away: nobody who could be asked knows its rights then."""
    vault = Talker(house.broker, "vault")
    eve = Talker(house.broker, "eve", clean=False, expiry=3_600)
    vault.says("secret/x", b"{}")
    assert not asks(eve, "count('secret/x', '') = 1")
    house.broker.lose(eve.client)

    vault = Talker(house.start(), "vault")
    vault.says("mine/eve", b"1")
    house.rules(DENIED + "\n")
    vault.says("mine/eve", b"2")
    eve = Talker(house.broker, "eve", clean=False, expiry=3_600)
    assert not told(eve)
    house.rules(OPEN)
    assert told(eve)


def test_counts_go_on_after_a_restart(house: House) -> None:
    near, far = (LAT, LON), (LAT + 5_000 * METRES_NORTH, LON)
    asker, car = Talker(house.broker, "asker"), Talker(house.broker, "car")
    asker.moves(*near)
    car.moves(*near)
    car.says("news", b'{"n": 1}', to="circle:me,500")
    car.says("news", b'{"n": 2}', qos=0)
    car.says("news", b'{"n": 3}', at=f"{far[0]},{far[1]}")
    car.says("unkept/news", b"{}")
    car.moves(*far)
    counts = {"count('news', '')": 3, "count('news', 'n >= 2')": 2, "count('news', '', 500)": 2}
    for counted, number in counts.items():
        assert asks(asker, f"{counted} = {number}")
    assert asks(asker, "count('unkept/#', '') = 1")

    asker = Talker(house.start(), "asker")
    for counted, number in counts.items():
        assert asks(asker, f"{counted} = {number}")
    assert asks(asker, "count('unkept/#', '') = 0")
    house.broker.later(301.0)
    assert asks(asker, "count('news', '') = 0")


def test_a_watched_area_cannot_count(house: House) -> None:
    eve = Talker(house.broker, "eve")
    watched = {"area": "circle:53.35,-6.26,500", "nodes": "count('secret/x', '') > 0"}
    assert eve.sends("$area/mine", json.dumps(watched).encode()) == (
        ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    )
    assert eve.reason == '"nodes" is about nodes: it cannot count events'


def test_explain_and_the_pipeline_count_as_the_broker_did(house: House) -> None:
    """Over a restart and a change of rules: by the log alone."""
    got: dict[str, list[str]] = defaultdict(list)
    number = 0

    def listens(name: str) -> Talker:
        talker = Talker(house.broker, name, clean=False, expiry=3_600)
        talker.moves(LAT, LON)
        return talker

    def happens(*talkers: Talker) -> None:
        nonlocal number
        for to in ("", f"circle:{LAT + 1},{LON},500", "circle:me,500"):
            number += 1
            more = {"to": to} if to else {}
            vault.says("secret/x", b"{}", more=more)
            vault.says("asked", b"{}", id=f"asked {number}")
            for talker in talkers:
                for message in talker.gets():
                    got[talker.node] += about(message)["nc-id"]

    vault = Talker(house.broker, "vault")
    vault.moves(LAT, LON)
    names = ("eve", "reads")
    talkers = [listens(name) for name in names]
    for talker in talkers:
        talker.wants("asked", where="count('secret/#', '') >= 2")
    happens(*talkers)
    house.start()
    vault, talkers = Talker(house.broker, "vault"), [listens(name) for name in names]
    happens(*talkers)
    house.rules(OPEN)
    happens(*talkers)
    house.broker.validate()
    house.start()

    assert got["reads"] == [f"asked {n}" for n in range(3, 10)]
    assert got["eve"] == [f"asked {n}" for n in range(7, 10)]
    name = house.broker.server.settings.node.name
    log = broker_directory(house.data, name) / "log"
    decided: dict[str, list[str]] = defaultdict(list)
    for played in Player(name).decide(read_log(house.data, name)):
        for each in (copy for sent in played.sent for copy in sent.deliveries):
            if each.event.subject == "asked":
                decided[each.owner].append(each.event.id)
    assert decided == got
    for asked in (f"asked {n}" for n in (1, 2, 3, 6, 7)):
        for node in names:
            assert explain(log, asked, node).delivered == (asked in got[node])
