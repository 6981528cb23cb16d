"""`nearcast pipeline dictionary`: trained from the log, used at once, trained anew after forget."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearcast.cli import app
from nearcast.store.dictionaries import StoredDictionary, read_dictionaries
from nearcast.wire.encoding.content_codings import decode_payload
from tests.support.clients.raw_client import RawClient
from tests.support.clients.talker import told, words
from tests.support.running_broker import RunningBroker

SUBJECT = "traffic/m50"
ACCEPTS = words(accept_encoding="dictionary")


def payload(number: int, person: str = "") -> bytes:
    found = {"road": "M50 northbound", "speed": number % 120, "lane": number % 3, "by": person}
    return json.dumps(found, separators=(",", ":")).encode()


def fill_log(data: Path, people: Sequence[str], count: int) -> None:
    broker = RunningBroker(data=data)
    try:
        clients = [broker.client(name) for name in people]
        for number in range(count):
            place = number % len(people)
            clients[place].publish(SUBJECT, payload(number, f"{people[place]}secret"), qos=1)
    finally:
        broker.stop()


def dictionary(data: Path, *arguments: str, code: int = 0) -> list[dict[str, object]]:
    options = ["--json"] if not code else []
    done = CliRunner().invoke(
        app, ["pipeline", "dictionary", *arguments, "--data", str(data), *options]
    )
    assert done.exit_code == code, done.output
    found: list[dict[str, object]] = [] if code else json.loads(done.output)["dictionaries"]
    return found


def kept(data: Path) -> StoredDictionary:
    (found,) = read_dictionaries(data / "brokers" / "local")
    return found


def next_payload(reader: RawClient, dictionaries: dict[int, bytes]) -> bytes:
    message = reader.take()
    while message.topic.startswith("$me/dictionaries/"):
        dictionaries[int(message.topic.rpartition("/")[2])] = message.payload
        message = reader.take()
    coding = told(message).get("nc-encoding", ["none"])[0]
    assert coding == "dictionary", message
    return decode_payload(coding, message.payload, dictionaries)


def test_a_dictionary_is_trained_used_and_trained_anew(tmp_path: Path) -> None:
    people = [f"jan{letter}" for letter in "abcdefghijkl"]
    fill_log(tmp_path, people, 360)
    (shown,) = dictionary(tmp_path, "traffic/#", "--least", "12", "--bytes", "1024")
    assert (shown["pattern"], shown["number"], shown["messages"]) == ("traffic/#", 1, 360)
    trained = kept(tmp_path).trained
    assert b"northbound" in trained
    assert not any(f"{name}secret".encode() in trained for name in people)

    broker = RunningBroker(data=tmp_path)
    try:
        reader, writer = broker.client(properties=ACCEPTS), broker.client("jana")
        reader.subscribe("traffic/#")
        told_dictionaries: dict[int, bytes] = {}
        writer.publish(SUBJECT, payload(5))
        assert next_payload(reader, told_dictionaries) == payload(5)
        assert told_dictionaries == {1: trained}

        # Forgetting removes it at once. Now eleven are left, which is fewer than twelve.
        done = CliRunner().invoke(app, ["forget", "jana", "--data", str(tmp_path), "--yes"])
        assert done.exit_code == 0, done.output
        assert kept(tmp_path).trained == b""
        other = broker.client()
        other.publish(SUBJECT, payload(6))
        message = reader.take()
        assert (message.payload, told(message)) == (payload(6), {})

        (shown,) = dictionary(tmp_path, "traffic/#", "--least", "11", "--bytes", "1024")
        assert shown["number"] == 2
        other.publish(SUBJECT, payload(7))
        assert next_payload(reader, told_dictionaries) == payload(7)
        done = CliRunner().invoke(app, ["forget", "nobody", "--data", str(tmp_path), "--yes"])
        assert done.exit_code == 0, done.output
        assert kept(tmp_path).number == 3
        other.publish(SUBJECT, payload(8))
        assert next_payload(reader, told_dictionaries) == payload(8)
        assert sorted(told_dictionaries) == [1, 2, 3]
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["traffic/#", "--least", "40"], "of 12 publishers"),
        (["weather/#"], "has 0 small messages"),
        (["traffic/#", "--least", "1"], "1 publishers are out of range"),
        (["a/#/b"], "#"),
    ],
)
def test_what_cannot_be_trained_is_said(arguments: list[str], why: str, few: Path) -> None:
    done = CliRunner().invoke(app, ["pipeline", "dictionary", *arguments, "--data", str(few)])
    assert done.exit_code == 2
    assert why in done.output
    assert read_dictionaries(few / "brokers" / "local") == []


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("few")
    fill_log(data, [f"jan{letter}" for letter in "abcdefghijkl"], 120)
    return data


def test_without_any_nothing_is_trained(few: Path) -> None:
    assert dictionary(few) == []
