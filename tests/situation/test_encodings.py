"""Payloads are encoded for clients that accept it, once for all of them, and plain for others."""

import random
from pathlib import Path

import msgspec
import pytest
import zstandard

from nearcast.wire.encoding.columns import decode_columns
from nearcast.wire.encoding.content_codings import ALL, Coding, Dictionary, decode_payload
from nearcast.wire.encoding.zstd_frames import decompress
from nearcast.wire.mqtt import MQTT_3_1_1, Properties, Publish
from tests.support.clients.raw_client import RawClient, fresh
from tests.support.clients.talker import told, words
from tests.support.ruled_broker import broker_with
from tests.support.running_broker import RunningBroker

CHANCE = random.Random(1)
TABLE = msgspec.json.encode(
    {"people": ["a", "b"], "count": 40, "events": [
        {"id": str(each), "publisher": "ab"[each % 2], "time": f"2026-11-15T14:30:{each:02}Z",
         "position": [-6.26, round(53.35 + each / 1000, 5)], "attributes": {"speed": each}}
        for each in range(40)
    ]}
)  # fmt: skip
TEXT = b"the same words again and again; " * 64


def accepting(broker: RunningBroker, codings: str, **others: object) -> RawClient:
    properties = words(accept_encoding=codings)
    return broker.client(properties=properties, **others)  # type: ignore[arg-type]


def coding(message: Publish) -> str | None:
    return told(message).get("nc-encoding", [None])[0]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_client_gets_what_it_accepts(broker: RunningBroker, qos: int) -> None:
    subject, publisher = fresh("news"), broker.client()
    clients = {each: accepting(broker, each) for each in ("zstd", "columns, zstd", "br", "")}
    plain, old = broker.client(), broker.client(version=MQTT_3_1_1)
    for client in (*clients.values(), plain, old):
        client.subscribe(subject)
    publisher.publish(subject, TABLE, qos, properties=Properties(user_properties=(("k", "v"),)))

    message = clients["columns, zstd"].take()
    assert (coding(message), decode_columns(message.payload)) == ("columns", TABLE)
    assert told(message)["k"] == ["v"]
    assert len(message.payload) < len(TABLE) / 10
    message = clients["zstd"].take()
    assert (coding(message), decompress(message.payload)) == ("zstd", TABLE)
    for client in (clients["br"], clients[""], plain, old):
        message = client.take()
        assert message.payload == TABLE
        assert client is old or coding(message) is None


def test_what_does_not_become_smaller_is_sent_as_it_is(broker: RunningBroker) -> None:
    subject, publisher, reader = fresh("news"), broker.client(), accepting(broker, "zstd, columns")
    reader.subscribe(subject)
    noise = CHANCE.randbytes(3_000)
    for payload in (b"", b"short", b"[{" + b"1" * 100, noise):
        publisher.publish(subject, payload)
        message = reader.take()
        assert (message.payload, coding(message)) == (payload, None)


def test_a_payload_is_encoded_once_for_all_that_accept_the_same(broker: RunningBroker) -> None:
    subject, publisher = fresh("news"), broker.client()
    readers = [accepting(broker, "zstd") for _ in range(5)]
    for qos, reader in enumerate(readers):
        reader.subscribe(subject, qos=qos % 3)
    encoder = broker.server.hub.state.dictionaries.encoder(Coding.ZSTD)
    assert encoder is not None
    before = encoder.encoded
    publisher.publish(subject, TEXT, 2)
    assert [decompress(reader.take().payload) for reader in readers] == [TEXT] * 5
    assert encoder.encoded == before + 1


def test_what_waited_for_a_client_is_encoded_when_it_is_back(broker: RunningBroker) -> None:
    subject, publisher, name = fresh("news"), broker.client(), fresh("sleeper")
    reader = broker.client(name, clean=False, expiry=100)
    reader.subscribe(subject)
    reader.close()
    publisher.publish(subject, TEXT, 1)
    back = accepting(broker, "zstd", client_id=name, clean=False, expiry=100)
    message = back.take()
    assert (coding(message), decompress(message.payload)) == ("zstd", TEXT)


def test_a_dictionary_is_told_before_its_first_use_to_readers_alone(broker: RunningBroker) -> None:
    subject, publisher = fresh("news"), broker.client()
    samples = [small(each) for each in range(2_000)]
    trained = zstandard.train_dictionary(2_048, [*samples]).as_bytes()
    book = broker.server.hub.state.dictionaries
    book.replace(((f"{subject}/+", Dictionary(9, trained)),))
    try:
        reader, other = accepting(broker, "zstd, dictionary"), accepting(broker, "dictionary")
        plain = accepting(broker, "zstd")
        reader.subscribe(f"{subject}/#")
        other.subscribe("$me/dictionaries/#")
        plain.subscribe(f"{subject}/#")
        publisher.publish(subject, samples[0])
        assert reader.take().payload == samples[0]
        for each in range(3):
            publisher.publish(f"{subject}/a", samples[each], qos=each % 2)
        dictionary = reader.take()
        assert (dictionary.topic, dictionary.payload) == ("$me/dictionaries/9", trained)
        for each in range(3):
            message = reader.take()
            assert coding(message) == "dictionary"
            assert len(message.payload) <= 40
            assert decode_payload("dictionary", message.payload, {9: trained}) == samples[each]
        assert [plain.take().payload for _ in range(4)] == [samples[0], *samples[:3]]
        assert not other.rest()
    finally:
        book.replace(())


def small(number: int) -> bytes:
    position = [round(CHANCE.uniform(-6.4, -6.1), 5), round(CHANCE.uniform(53.2, 53.5), 5)]
    vehicle = f"car-{CHANCE.randrange(60_000)}"
    return msgspec.json.encode({"vehicle": vehicle, "at": position, "speed": number % 120})


def test_all_codings_have_names() -> None:
    assert sum(Coding) == ALL


def test_an_aggregate_is_encoded_once_for_all_that_get_it(broker: RunningBroker) -> None:
    subject, publisher = fresh("traffic"), broker.client()
    readers = [accepting(broker, "columns") for _ in range(4)]
    for reader in readers:
        reader.subscribe(subject, properties=words(aggregate="volume 20"))
    encoder = broker.server.hub.state.dictionaries.encoder(Coding.COLUMNS)
    assert encoder is not None
    before = encoder.encoded
    for number in range(20):
        publisher.publish(subject, b'{"speed": %d}' % number)
    found = [reader.take() for reader in readers]
    assert {coding(message) for message in found} == {"columns"}
    assert len({message.payload for message in found}) == 1
    aggregate = msgspec.json.decode(decode_columns(found[0].payload))
    assert (aggregate["count"], len(aggregate["events"])) == (20, 20)
    assert encoder.encoded == before + 1


RULES = """
default = "allow"

[[rule]]
permission = "deny"
who = "all"
action = "subscribe"
topics = ["staff/salary"]
"""


def test_only_who_may_read_the_whole_pattern_gets_its_dictionary(tmp_path: Path) -> None:
    broker = broker_with(tmp_path, RULES)
    try:
        samples = [small(each) for each in range(1_000)]
        dictionary = Dictionary(3, zstandard.train_dictionary(1_024, [*samples]).as_bytes())
        book = broker.server.hub.state.dictionaries
        book.replace((("staff/#", dictionary), ("cars/#", dictionary)))
        reader, publisher = accepting(broker, "dictionary"), broker.client()
        reader.subscribe("staff/lunch", "cars/#")
        publisher.publish("staff/lunch", samples[0])
        assert reader.take().payload == samples[0]
        publisher.publish("cars/red", samples[0])
        assert reader.take().topic == dictionary.topic
        assert coding(reader.take()) == "dictionary"
    finally:
        broker.stop()
