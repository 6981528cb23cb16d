"""What deliveries tell of their events: one copy, all that fits named, and who may not know it."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.situation.metadata import time_text
from nearcast.wire.mqtt import MQTT_3_1_1, Properties, Publish, ReasonCode, TopicFilter
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker, told, words
from tests.support.running_broker import RunningBroker


def test_a_delivery_tells_all_of_its_event(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker, fresh("a/b %é")), Talker(broker)
    reader.wants(subject := fresh("news"), where="speed > 1")

    publisher.says(
        subject, b'{"speed": 2}', at="53.3498,-6.2603", id="my id", time="2020-02-03T04:05:06.789Z",
        priority="3",
    )  # fmt: skip

    (message,) = reader.gets()
    assert told(message) == {
        "nc-id": ["my id"],
        "nc-at": ["53.3498,-6.2603"],
        "nc-publisher": [publisher.node],
        "nc-time": ["2020-02-03T04:05:06.789Z"],
        "nc-priority": ["1"],
        "nc-subscription": [subject],
    }


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("2020-02-03T04:05:06Z", "2020-02-03T04:05:06.000Z"),
        ("2020-02-03T04:05:06.000001Z", "2020-02-03T04:05:06.000001Z"),
        ("2020-02-03T06:05:06.7891+02:00", "2020-02-03T04:05:06.789100Z"),
    ],
)
def test_nothing_of_a_time_is_lost(broker: RunningBroker, said: str, wanted: str) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    reader.wants(subject := fresh("news"), meta="1")
    publisher.says(subject, time=said)

    (message,) = reader.gets()
    assert told(message)["nc-time"] == [wanted]


def test_what_the_event_does_not_say_the_broker_adds(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    publisher.moves(53.35, -6.26)
    reader.wants(subject := fresh("news"), meta="1")

    before = datetime.now(UTC) - timedelta(seconds=5)
    for _ in range(2):
        publisher.says(subject)
    after = datetime.now(UTC) + timedelta(seconds=5)

    first, second = (told(message) for message in reader.gets())
    assert first["nc-id"] != second["nc-id"]
    assert first["nc-at"] == ["53.35,-6.26"]
    assert before <= datetime.fromisoformat(first["nc-time"][0]) <= after


def test_an_event_from_nowhere_has_no_position(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    reader.wants(subject := fresh("news"), meta="1")
    publisher.says(subject)

    (message,) = reader.gets()
    assert "nc-at" not in told(message)


@pytest.mark.parametrize("ahead_s", [50, 70, 86_400])
def test_a_time_too_far_ahead_is_replaced(broker: RunningBroker, ahead_s: int) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    reader.wants(subject := fresh("news"), meta="1")
    now = datetime.fromtimestamp(broker.server.now(), UTC)
    said = now + timedelta(seconds=ahead_s)

    publisher.says(subject, time=said.isoformat())

    (message,) = reader.gets()
    time = datetime.fromisoformat(told(message)["nc-time"][0])
    meant = said if ahead_s <= 60 else now
    assert abs((time - meant).total_seconds()) < 10


def test_one_copy_names_all_that_fit_and_has_the_highest_qos(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    subject = fresh("news")
    reader.subscribes(
        TopicFilter(f"{subject}/#", 0), properties=Properties(subscription_identifiers=(3,))
    )
    reader.subscribes(
        TopicFilter(f"{subject}/+", 1),
        properties=Properties(
            subscription_identifiers=(4,), user_properties=(("nc-where", "speed > 5"),)
        ),
    )
    reader.names("fast", subject=f"{subject}/a", where="speed > 50", qos=2)

    publisher.says(f"{subject}/a", b'{"speed": 1}', qos=2)
    publisher.says(f"{subject}/a", b'{"speed": 10}', qos=2)
    publisher.says(f"{subject}/a", b'{"speed": 90}', qos=2)

    slow, quick, fast = reader.gets()
    assert (slow.qos, slow.properties.subscription_identifiers) == (0, (3,))
    assert "nc-id" not in told(slow)
    assert quick.qos == 1
    assert sorted(quick.properties.subscription_identifiers) == [3, 4]
    assert sorted(told(quick)["nc-subscription"]) == [f"{subject}/#", f"{subject}/+"]
    assert fast.qos == 2
    assert set(told(fast)["nc-subscription"]) == {f"{subject}/#", f"{subject}/+", "fast"}


@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_qos_is_the_lower_of_both(broker: RunningBroker, published: int, granted: int) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    reader.wants(subject := fresh("news"), qos=granted, meta="1")

    publisher.says(subject, qos=published)

    (message,) = reader.gets()
    assert message.qos == min(published, granted)


def test_own_events_come_unless_no_local_is_set(broker: RunningBroker) -> None:
    talker = Talker(broker)
    first, second = fresh("news"), fresh("news")
    talker.names("a", subject=first)
    talker.names("b", subject=second, no_local=True)

    talker.says(first, b"1")
    talker.says(second, b"2")

    assert talker.payloads() == [b"1"]


@pytest.mark.parametrize(
    ("payload", "part"),
    [
        (b'{"lane": 2}', {"payload": {"lane": 2}}),
        (b"[1, 2.50]", {"payload": [1, 2.5]}),
        (b"null", {"payload": None}),
        (b"plain words", {"text": "plain words"}),
        (b"", {"text": ""}),
        (b"\xff\x00", {"base64": base64.b64encode(b"\xff\x00").decode()}),
    ],
)
def test_an_envelope_tells_the_same_in_json(
    broker: RunningBroker, payload: bytes, part: dict[str, object]
) -> None:
    publisher, reader = Talker(broker), Talker(broker, version=MQTT_3_1_1)
    reader.names("wrapped", subject=(subject := fresh("news")), envelope=True, qos=1)

    publisher.says(subject, payload, at="1.5,2", id="i", time="2020-02-03T04:05:06Z")

    (message,) = reader.gets()
    assert json.loads(message.payload) == {
        "id": "i",
        "at": "1.5,2",
        "publisher": publisher.node,
        "time": "2020-02-03T04:05:06.000Z",
        "priority": 1,
        "subscription": ["wrapped"],
        **part,
    }


def test_without_an_envelope_mqtt_3_gets_the_payload_alone(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker, version=MQTT_3_1_1)
    reader.names("bare", subject=(subject := fresh("news")))
    publisher.says(subject, b"x")

    assert reader.payloads() == [b"x"]


@pytest.mark.parametrize(
    "payload", ['{"b": 1.50, "a": 12345678901234567890123}', "[1,  2]", '"x\\u00e9"', "1e5"]
)
def test_json_in_json_keeps_its_bytes(broker: RunningBroker, payload: str) -> None:
    publisher, reader = Talker(broker, version=MQTT_3_1_1), Talker(broker)
    reader.subscribes(subject := fresh("news"))

    publisher.sends(f"$me/publish/{subject}", f'{{"at": "1,2", "payload": {payload}}}'.encode())

    assert reader.payloads() == [payload.encode()]


def test_an_event_in_json_says_what_properties_can(broker: RunningBroker) -> None:
    old, reader = Talker(broker, version=MQTT_3_1_1), Talker(broker)
    reader.wants(f"{(subject := fresh('news'))}/#", meta="1")
    words_of_it = {
        "at": [-6.26, 53.35], "valid": 60, "object": "o", "priority": 2, "id": "i",
        "time": "2020-02-03T04:05:06Z", "to": {"circle": {"center": [0, 0], "radius": 1000}},
        "text": "hello",
    }  # fmt: skip
    reader.moves(0, 0)

    old.sends(f"$me/publish/{subject}/x", json.dumps(words_of_it).encode(), 1, True)

    (message,) = reader.gets()
    assert (message.topic, message.payload) == (f"{subject}/x", b"hello")
    assert told(message)["nc-at"] == ["53.35,-6.26"]
    assert told(message)["nc-id"] == ["i"]
    late = Talker(broker)
    late.moves(0, 0)
    late.subscribes(f"{subject}/x")
    (kept,) = late.gets()
    assert kept.retain


def test_a_repeat_is_acknowledged_and_ignored(broker: RunningBroker) -> None:
    publisher, other, reader = (Talker(broker) for _ in range(3))
    reader.subscribes(subject := fresh("news"))

    for payload in (b"1", b"2"):
        assert publisher.says(subject, payload, id="same") == ReasonCode.SUCCESS
    other.says(subject, b"3", id="same")
    publisher.client.send(
        *[Publish(subject, b"%d" % n).with_(words(id="both")) for n in (4, 5)],
    )
    publisher.gets()

    assert reader.payloads() == [b"1", b"3", b"4"]


def test_a_refused_event_may_be_said_again_with_its_id(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    reader.subscribes(subject := fresh("news"))
    publisher.client.send(
        Publish(subject, b"wrong").with_(words(id="i", to="place:nowhere")),
        Publish(subject, b"right").with_(words(id="i")),
    )
    publisher.gets()

    assert reader.payloads() == [b"right"]


def test_events_of_a_part_are_those_of_its_node(broker: RunningBroker) -> None:
    node, subject = fresh("node"), fresh("news")
    one, two, reader = Talker(broker, f"{node}~a"), Talker(broker, f"{node}~b~c"), Talker(broker)
    reader.wants(subject, from_="circle:53.35,-6.26,500")
    one.moves(53.35, -6.26)

    two.says(subject, b"x", id="i")
    one.says(subject, b"repeat", id="i")

    (message,) = reader.gets()
    assert message.payload == b"x"
    assert told(message)["nc-publisher"] == [node]


def test_what_belongs_to_one_publisher_and_topic_keeps_its_order(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    subject = fresh("news")
    reader.wants(f"{subject}/#", qos=1, where="event.subject LIKE '%'")
    numbers = range(60)
    said = [
        Publish(f"{subject}/{n % 3}", b"%d" % n, 1 if n % 2 else 0, packet_id=n + 1 if n % 2 else 0)
        for n in numbers
    ]
    said = [
        packet.with_(words(at="1,2")) if n % 5 == 0 else packet for n, packet in enumerate(said)
    ]

    publisher.client.send(*said)
    publisher.gets()

    came = [(m.topic, m.qos, int(m.payload)) for m in reader.gets()]
    assert sorted(number for *_, number in came) == list(numbers)
    for topic, qos in {(topic, qos) for topic, qos, _ in came}:
        own = [number for t, q, number in came if (t, q) == (topic, qos)]
        assert own == sorted(own)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stays", [{}, {"valid": "60"}, {"object": "o"}])
def test_an_envelope_is_a_delivery_of_its_own_beside_a_plain_one(
    broker: RunningBroker, version: int, stays: dict[str, str]
) -> None:
    publisher, reader = Talker(broker), Talker(broker, version=version)
    subject = fresh("news")
    reader.subscribes(f"{subject}/#", qos=1)
    reader.names("wrapped", subject=f"{subject}/+", envelope=True, qos=2)
    reader.names("both", subject=f"{subject}/1", envelope=True, meta=False)

    publisher.says(f"{subject}/1", b'{"n": 1}', qos=2, more=stays)

    plain, wrapped = sorted(reader.gets(), key=lambda m: len(m.payload))
    assert (plain.payload, plain.qos) == (b'{"n": 1}', 1)
    assert told(plain) == {}
    envelope = json.loads(wrapped.payload)
    assert (envelope["payload"], wrapped.qos) == ({"n": 1}, 2)
    assert sorted(envelope["subscription"]) == ["both", "wrapped"]
    assert told(wrapped) == {}


def test_an_envelope_leaves_the_copy_with_properties_as_it_is(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    subject = fresh("news")
    reader.subscribes(subject, properties=words(meta="1"))
    reader.names("wrapped", subject=subject, envelope=True, qos=1)

    publisher.says(subject, b"1")

    with_words, wrapped = sorted(reader.gets(), key=lambda m: len(m.payload))
    assert with_words.payload == b"1"
    assert told(with_words)["nc-subscription"] == [subject]
    assert json.loads(wrapped.payload)["subscription"] == ["wrapped"]


@given(st.floats(-1e9, 4e9))
def test_times_are_written_as_the_standard_library_has_them(seconds: float) -> None:
    time = datetime.fromtimestamp(seconds, UTC)

    written = time_text(seconds)

    assert datetime.fromisoformat(written) == time
    form = "microseconds" if time.microsecond % 1_000 else "milliseconds"
    assert written == time.isoformat(timespec=form).replace("+00:00", "Z")
