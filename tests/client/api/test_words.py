"""What a program says and hears, in the words of messages: areas, events, envelopes."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

import nearcast as nc
from nearcast.client.api.areas import AreaLike, encode_area, encode_position, geometry_json
from nearcast.client.api.event_options import Payload, encode_event_options, payload_bytes
from nearcast.client.api.subscription_request import SubscriptionRequest
from nearcast.client.protocol.repeats import KnownEvents, SentTwice
from nearcast.client.receive.received import Received, received
from nearcast.core.model import Position, parse_area
from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5, Properties, Publish

SQUARE = [(-7.0, 53.0), (-6.0, 53.0), (-6.0, 54.0), (-7.0, 54.0)]


@pytest.mark.parametrize(
    ("area", "text"),
    [
        (nc.circle(nc.connect(node="a,b"), 500), "circle:a%2Cb,500"),
        (nc.circle("me", 500), "circle:me,500"),
        (nc.circle((53.3, -6.2), 10), "circle:53.3,-6.2,10"),
        (nc.circle(Position(53.3, -6.2), 10), "circle:53.3,-6.2,10"),
        (nc.box(53, -7, 54, -6), "bbox:53,-7,54,-6"),
        (nc.place("Dublin", "city"), "place:city/Dublin"),
        (nc.here("city"), "place:here/city"),
        ("circle:me,5", "circle:me,5"),
        ({"place": "Dublin"}, '{"place":"Dublin"}'),
    ],
)
def test_an_area_is_the_text_that_the_broker_reads(area: AreaLike, text: str) -> None:
    assert encode_area(area) == text
    assert encode_area(parse_area(text)) == encode_area(parse_area(encode_area(area)))


def test_a_place_is_drawn_by_a_polygon_or_geojson_only() -> None:
    drawn = json.loads(geometry_json(nc.polygon(SQUARE)))
    assert drawn["type"] == "Polygon"
    assert json.loads(geometry_json(drawn)) == drawn
    with pytest.raises(nc.ModelError, match="polygon"):
        geometry_json(nc.box(53, -7, 54, -6))


@pytest.mark.parametrize("where", [(91.0, 0.0), (float("nan"), 0.0), (1.0, 2.0, 3.0)])
def test_a_position_that_cannot_be_is_refused_before_it_is_sent(where: tuple[float, ...]) -> None:
    with pytest.raises(nc.ModelError):
        encode_position(where)


@pytest.mark.parametrize(
    ("payload", "data"),
    [
        (None, b""),
        (b"\xff", b"\xff"),
        ("é", "é".encode()),
        ({"a": [1, None]}, b'{"a":[1,null]}'),
        ([1], b"[1]"),
        (1.5, b"1.5"),
        (True, b"true"),
    ],
)
def test_a_payload_is_bytes_text_or_json(payload: Payload, data: bytes) -> None:
    assert payload_bytes(payload) == data


EVERYTHING = encode_event_options(
    at=(53.3, -6.2),
    to=nc.circle("me", 500),
    valid=60,
    object="roadworks",
    priority=2,
    deadline=1.5,
    time=datetime(2026, 11, 15, 14, tzinfo=timezone(timedelta(hours=1))),
    id="e1",
)


def test_mqtt_5_says_it_in_properties() -> None:
    packed = EVERYTHING.pack("traffic", {"speed": 3}, MQTT_5, [("own", "x")])
    assert (packed.topic, packed.payload) == ("traffic", b'{"speed":3}')
    assert packed.properties.user_properties == (
        ("nc-at", "53.3,-6.2"),
        ("nc-to", "circle:me,500"),
        ("nc-valid", "60"),
        ("nc-object", "roadworks"),
        ("nc-priority", "2"),
        ("nc-deadline", "1.5"),
        ("nc-time", "2026-11-15T13:00:00Z"),
        ("nc-id", "e1"),
        ("own", "x"),
    )


@pytest.mark.parametrize(
    ("payload", "member"),
    [
        ({"speed": 3}, {"payload": {"speed": 3}}),
        ("rain", {"text": "rain"}),
        (b"\xff", {"base64": "/w=="}),
        (None, {}),
    ],
)
def test_mqtt_3_says_it_in_json(payload: Payload, member: dict[str, object]) -> None:
    packed = encode_event_options(valid=0, id="e1").pack("a/b", payload, MQTT_3_1_1)
    assert packed.topic == "$me/publish/a/b"
    assert json.loads(packed.payload) == {"valid": 0, "id": "e1"} | member


def test_an_event_of_which_nothing_is_said_is_a_plain_message() -> None:
    packed = encode_event_options().pack("a", "x", MQTT_3_1_1)
    assert (packed.topic, packed.payload) == ("a", b"x")
    with pytest.raises(nc.OptionsError, match="user properties"):
        encode_event_options().pack("a", "x", MQTT_3_1_1, [("k", "v")])


def test_a_time_without_a_zone_could_be_any_time() -> None:
    with pytest.raises(nc.OptionsError, match="time zone"):
        encode_event_options(time=datetime(2026, 11, 15))


TOLD = (
    ("nc-id", "e1"),
    ("nc-at", "53.3,-6.2"),
    ("nc-publisher", "truck"),
    ("nc-time", "2026-11-15T13:00:00.250Z"),
    ("nc-priority", "2"),
    ("nc-subscription", "a/#"),
    ("own", "1"),
    ("nc-subscription", "jobs"),
    ("own", "2"),
)
WHOLE = Received(
    subject="a/b",
    payload=b'{"speed": 3}',
    id="e1",
    position=Position(53.3, -6.2),
    publisher="truck",
    time=datetime(2026, 11, 15, 13, 0, 0, 250_000, tzinfo=UTC),
    priority=2,
    subscriptions=("a/#", "jobs"),
    qos=1,
    properties=(("own", "1"), ("own", "2")),
)


def test_what_properties_tell_of_an_event_is_read() -> None:
    message = Publish("a/b", b'{"speed": 3}', 1).with_(Properties(user_properties=TOLD))
    event = received(message, MQTT_5)
    assert event == WHOLE
    assert event.attributes == {"speed": 3}
    assert event.attributes is event.attributes


@pytest.mark.parametrize(
    ("member", "payload"),
    [
        ('"payload": {"speed": 3.0}', b'{"speed": 3.0}'),
        ('"text": "rain"', b"rain"),
        ('"base64": "/w=="', b"\xff"),
        ('"priority": 1', b""),
    ],
)
def test_what_an_envelope_holds_is_read_and_its_payload_is_unchanged(
    member: str, payload: bytes
) -> None:
    document = '{"id": "e1", "at": "53.3,-6.2", "subscription": ["a/#"], ' + member + "}"
    event = received(Publish("a/b", document.encode(), 1), MQTT_3_1_1)
    assert (event.id, event.position) == ("e1", Position(53.3, -6.2))
    assert (event.subscriptions, event.payload) == (("a/#",), payload)


@pytest.mark.parametrize("payload", [b"{", b"[1]", b"{}", b"\xff", b'{"subscription": 1}'])
def test_a_message_without_an_envelope_is_an_event_all_the_same(payload: bytes) -> None:
    assert received(Publish("a", payload), MQTT_3_1_1) == Received(subject="a", payload=payload)


def test_a_withdrawal_is_known_as_such_and_no_repeat_of_what_it_ends() -> None:
    told = (("nc-id", "e1"), ("nc-publisher", "p"))
    event = received(Publish("a", b"x", 1).with_(Properties(user_properties=told)), MQTT_5)
    ends = Properties(user_properties=(*told, ("nc-valid", "0")))
    ended = received(Publish("a", b"", 1).with_(ends), MQTT_5)
    opened = received(Publish("a", b'{"valid": 0, "subscription": ["a"]}', 1), MQTT_3_1_1)
    assert [event.withdrawn, ended.withdrawn, opened.withdrawn] == [False, True, True]
    known = KnownEvents()
    assert [known.is_repeat(each) for each in (event, ended, ended)] == [False, False, True]


def test_metadata_that_cannot_be_read_is_left_out() -> None:
    told = (("nc-at", "x"), ("nc-time", "y"), ("nc-priority", "z"), ("nc-new", "?"))
    message = Publish("a", b"x").with_(Properties(user_properties=told))
    assert received(message, MQTT_5) == Received(subject="a", payload=b"x")


def test_a_subscription_in_json_says_what_properties_say() -> None:
    wish = SubscriptionRequest(pattern="a/#", where="speed < 20", from_="circle:me,5", name="n")
    assert wish.properties(MQTT_5).user_properties == (
        ("nc-where", "speed < 20"),
        ("nc-from", "circle:me,5"),
        ("nc-meta", "1"),
    )
    assert json.loads(wish.document(MQTT_3_1_1)) == {
        "subject": "a/#",
        "qos": 1,
        "no_local": True,
        "where": "speed < 20",
        "from": "circle:me,5",
        "envelope": True,
    }


def test_an_event_that_came_before_is_known_within_the_bound() -> None:
    known = KnownEvents(most=2)
    events = [Received(subject="a", id=name, publisher="p", qos=1) for name in "abc"]
    assert [known.is_repeat(event) for event in (*events[:2], *events[:2])] == [False] * 2 + [
        True
    ] * 2
    assert not known.is_repeat(events[2])
    # The oldest is forgotten: it is delivered again rather than kept in memory for ever.
    assert not known.is_repeat(events[0])


@pytest.mark.parametrize(
    "event",
    [
        Received(subject="a", id="1", qos=1),
        Received(subject="a", publisher="p", qos=1),
        Received(subject="a", id="1", publisher="p", qos=1, retain=True),
    ],
)
def test_what_may_be_something_new_is_no_repeat(event: Received) -> None:
    known = KnownEvents()
    assert not known.is_repeat(event)
    assert not known.is_repeat(event)


def test_a_message_sent_again_is_known_by_its_identifier_and_content() -> None:
    sent = SentTwice()
    first = Publish("a", b"1", 1, packet_id=7)
    again = Publish("a", b"1", 1, dup=True, packet_id=7)
    other = Publish("a", b"2", 1, dup=True, packet_id=7)
    assert [sent.is_repeat(each) for each in (first, again, again)] == [False, True, True]
    assert not sent.is_repeat(other)
    assert not sent.is_repeat(again)
    sent.forget()
    assert not sent.is_repeat(again)


@pytest.mark.parametrize("node", ["", "me", "here", "a~b"])
def test_a_name_that_is_no_node_is_refused(node: str) -> None:
    with pytest.raises(nc.OptionsError, match="node"):
        nc.connect(node=node)


def test_a_part_is_a_part_of_a_node() -> None:
    assert nc.connect(node="car", part="siren").client_id == "car~siren"
    assert nc.connect(node="car", part="siren").node == "car"
    with pytest.raises(nc.OptionsError, match="part"):
        nc.connect(part="siren")
