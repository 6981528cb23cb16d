"""What still waits of an event, and why: asked of a running broker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nearcast.broker.config.settings import Settings
from nearcast.broker.operations.control import ControlError, ask
from nearcast.cli import app
from nearcast.wire.mqtt import Properties, ReasonCode
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker
from tests.support.running_broker import RunningBroker

BATTERY = {"attribute": "battery", "intervals": [[None, 20], [20, 50], [50, None]]}
POLICIES: dict[str, Any] = {
    "awareness/default": {"modules": {"battery": BATTERY}},
    "matrix/default": {"rows": [[-1, -1, 1], [-1, 2, 1], [1, 1, 1]]},
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker that withholds what matters little to who has a low battery."""
    broker = RunningBroker(Settings(), tmp_path)
    for name, document in POLICIES.items():
        code = Talker(broker).sends(f"$policy/{name}", json.dumps(document).encode())
        assert code == ReasonCode.SUCCESS
    yield broker
    broker.stop()


def directory(broker: RunningBroker) -> Path:
    store = broker.server._store
    assert store is not None
    return store.directory


def waiting(broker: RunningBroker, event: str, node: str) -> list[dict[str, Any]]:
    found: Any = ask(directory(broker), "waiting", 30.0, event=event, node=node, publisher=None)
    for each in found:
        assert each.pop("waits_s") >= 0.0
    return list(found)


def reports(talker: Talker, kind: str, id_: str) -> None:
    payload = json.dumps({"kind": kind}).encode()
    assert talker.says("report", payload, more={"id": id_}) == ReasonCode.SUCCESS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("envelope", [True, False])
def test_what_waits_is_told_with_the_priority_of_now_and_the_reason(
    house: RunningBroker, version: int, envelope: bool
) -> None:
    name, writer = fresh("reader"), Talker(house)
    reader = Talker(house, name, version=version, clean=False, expiry=600)
    reader.is_now(battery=90)
    assert reader.names(
        "n", subject="report", where="kind = 'fire' OR kind = 'road'", relevance="1,0.2", qos=1,
        envelope=envelope,
    ) == ReasonCode.SUCCESS  # fmt: skip
    house.lose(reader.client)
    reports(writer, "road", f"road-{name}")
    reports(writer, "fire", f"fire-{name}")

    away = "the client is not connected"
    queued = {"client": name, "state": "queued", "priority": 1, "why": away}
    assert waiting(house, f"road-{name}", name) == [queued | {"ahead": 0}]
    assert waiting(house, f"fire-{name}", name) == [queued | {"ahead": 1}]
    Talker(house, f"{name}~2").is_now(battery=5)
    (withheld,) = waiting(house, f"road-{name}", name)
    assert (withheld["state"], withheld["priority"]) == ("withheld", -1)
    assert "class 1" in withheld["why"]
    assert waiting(house, f"fire-{name}", name) == [queued | {"ahead": 0}]

    again = Talker(house, name, version=version, clean=False, expiry=600)
    assert len(again.gets()) == 1
    assert waiting(house, f"fire-{name}", name) == []
    assert waiting(house, "unheard", name) == []


def test_what_a_client_does_not_acknowledge_holds_up_the_rest(house: RunningBroker) -> None:
    name, writer = fresh("reader"), Talker(house)
    client = house.client(name, properties=Properties(receive_maximum=1))
    wanted = Properties(user_properties=(("nc-relevance", "1"),))
    client.subscribe("report", qos=1, properties=wanted)
    for number in range(3):
        reports(writer, "road", f"{number}-{name}")
    client.message()

    states = [waiting(house, f"{number}-{name}", name)[0] for number in range(3)]
    assert [(each["state"], each["ahead"]) for each in states] == [
        ("in flight", 0), ("queued", 0), ("queued", 1),
    ]  # fmt: skip
    assert [each["why"] for each in states] == [
        "it was sent, and the client has not acknowledged it",
        "the client has to acknowledge others first",
        "others leave before it",
    ]


def test_explain_says_what_waits_while_the_broker_runs(house: RunningBroker) -> None:
    name, writer = fresh("reader"), Talker(house)
    reader = Talker(house, name, clean=False, expiry=600)
    assert not reader.wants("report", relevance="1").failed
    house.lose(reader.client)
    reports(writer, "road", f"road-{name}")
    data = str(directory(house).parent.parent)
    asked = ["explain", f"road-{name}", name, "--data", data]

    text = CliRunner().invoke(app, asked)
    assert text.exit_code == 0, text.output
    assert f"It waits for {name}" in text.output
    assert "the client is not connected" in text.output
    told = json.loads(CliRunner().invoke(app, [*asked, "--json"]).output)
    assert [each["state"] for each in told["waiting"]] == ["queued"]


def test_a_request_without_an_event_is_refused(house: RunningBroker) -> None:
    with pytest.raises(ControlError, match="an event and a node are needed"):
        ask(directory(house), "waiting", 30.0, node="ann")
