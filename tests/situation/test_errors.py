"""What is wrong is refused with a code and a reason that helps, and nothing is half done."""

from collections.abc import Callable, Iterator

import pytest

from nearcast.broker.config.settings import Limits, Settings
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    NO_PROPERTIES,
    Connect,
    Properties,
    Publish,
    ReasonCode,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
)
from tests.situation.bad_events import BAD, BAD_EVENTS
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import Talker, words
from tests.support.running_broker import RunningBroker

BAD_JSON = ReasonCode.PAYLOAD_FORMAT_INVALID
NO_RIGHT = ReasonCode.NOT_AUTHORIZED
TOO_MANY = ReasonCode.QUOTA_EXCEEDED
SQUARE = b'{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}'

# Properties of a SUBSCRIBE, and what the reason names.
BAD_SUBSCRIPTIONS = [
    ((("nc-where", "speed >"),), "^"),
    ((("nc-where", "speed > 5 AND AND x = 1"),), "^"),
    ((("nc-where", "nosuch(speed)"),), "nosuch"),
    ((("nc-where", ""),), "nc-where"),
    ((("nc-where", "(" * 500),), "nc-where"),
    ((("nc-from", "circle:53,-6"),), "nc-from"),
    ((("nc-from", "circle:91,-6,500"),), "90"),
    ((("nc-from", "circle:53,-6,-5"),), "nc-from"),
    ((("nc-from", "circle:53,-6,nan"),), "nc-from"),
    ((("nc-from", "square:1,2,3"),), "nc-from"),
    ((("nc-from", "place:nowhere"),), "nc-from: no place is called 'nowhere'"),
    ((("nc-from", '{"type": "Polygon", "coordinates": []}'),), "nc-from"),
    ((("nc-from", "POLYGON((0 0, 1 0))"),), "nc-from"),
    ((("nc-meta", "yes"),), "nc-meta"),
    ((("nc-were", "speed > 5"),), "nc-were"),
    ((("nc-", "x"),), "nc-"),
    ((("nc-to", "circle:me,500"),), "nc-to"),
    ((("nc-where", "speed > 5"), ("nc-where", "speed > 5")), "twice"),
    ((("nc-relevance", "1,1"),), "one number"),
    ((("nc-aggregate", "1"),), "a need begins with volume or time or people"),
    ((("nc-detail", "1"),), "not available yet"),
    ((("nc-where", "template:units"),), "There is no template/units"),
]
# All that may be said in JSON of a subscription.
NAMED_WORDS = (
    "there are subject, where, from, relevance, aggregate, qos, no_local, envelope, meta; detail "
    "is not available yet"
)
# Topic, payload, code, and what the reason names.
BAD_COMMANDS = [
    ("$me/position", b"91,0", BAD, "90"),
    ("$me/position", b"53.35", BAD, "LAT,LON"),
    ("$me/position", b"nan,nan", BAD, "finite"),
    ("$me/position", b"\xff", BAD_JSON, "text"),
    ("$me/position", b'{"lat": 1, "lon": 2}', BAD, "number"),
    ("$me/context", b"{", BAD_JSON, "JSON"),
    ("$me/context", b"", BAD_JSON, "JSON"),
    ("$me/context", b"[1]", BAD_JSON, "object"),
    ("$me/context", b'{"position": [1, 2, 3]}', BAD, "[lon, lat]"),
    ("$me/context", b'{"position": [0, 95]}', BAD, "90"),
    ("$me/context", b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", BAD, "deeper"),
    ("$me/context", b'{"a": "' + b"x" * 70_000 + b'"}', BAD, "bytes"),
    ("$me/announcements/news", b"circle:me,500", BAD_JSON, "JSON"),
    ("$me/announcements/news", b"{}", BAD, '"to"'),
    ("$me/announcements/news", b'{"to": 5}', BAD, '"to"'),
    ("$me/announcements/news", b'{"to": "circle:me,500", "till": 5}', BAD, "till"),
    ("$me/announcements/news", b'{"to": "place:nowhere"}', BAD, "nowhere"),
    ("$me/announcements/", b'{"to": "circle:me,500"}', BAD, ""),
    ("$me/subscriptions/", b'{"subject": "news"}', BAD, "name"),
    ("$me/subscriptions/n", b"speed > 5", BAD_JSON, "JSON"),
    ("$me/subscriptions/n", b"{}", BAD, "subject"),
    ("$me/subscriptions/n", b'{"subject": 5}', BAD, "subject"),
    ("$me/subscriptions/n", b'{"subject": "a/#/b"}', BAD, "#"),
    ("$me/subscriptions/n", b'{"subject": "news", "qos": 3}', BAD, "qos"),
    ("$me/subscriptions/n", b'{"subject": "news", "qos": true}', BAD, "qos"),
    ("$me/subscriptions/n", b'{"subject": "news", "where": "speed >"}', BAD, "^"),
    ("$me/subscriptions/n", b'{"subject": "news", "where": 5}', BAD, "where"),
    ("$me/subscriptions/n", b'{"subject": "news", "from": "place:nowhere"}', BAD, "nowhere"),
    ("$me/subscriptions/n", b'{"subject": "news", "form": "circle:me,5"}', BAD, NAMED_WORDS),
    ("$me/subscriptions/n", b'{"subject": "news", "envelope": 1}', BAD, "envelope"),
    ("$me/subscriptions/n", b'{"subject": "news", "relevance": null}', BAD, "not null"),
    ("$me/subscriptions/n", b'{"subject": "news", "aggregate": 1}', BAD, "aggregate: what waits"),
    ("$me/subscriptions/n", b'{"subject": "news", "detail": 1}', BAD, "not available yet"),
    ("$me/subscriptions/n", b'{"subject": "$me/errors"}', BAD, "$me"),
    ("$me/publish/", b"{}", None, "subject"),
    ("$me/publish/news", b"", BAD_JSON, "JSON"),
    ("$me/publish/news", b"[]", BAD_JSON, "object"),
    ("$me/publish/news", b'{"att": "1,2"}', BAD, "id, payload, text, base64"),
    ("$me/publish/news", b'{"at": "1,2", "text": "a", "payload": 1}', BAD, "one payload"),
    ("$me/publish/news", b'{"base64": "!"}', BAD, "base64"),
    ("$me/publish/news", b'{"text": 5}', BAD, "text"),
    ("$me/publish/news", b'{"at": [0, 95]}', BAD, "90"),
    ("$me/publish/news", b'{"to": "circle:me"}', BAD, "to"),
    ("$me/publish/$me/position", b'{"text": "1,2"}', NO_RIGHT, "$me/position"),
    ("$place/park", b"{}", BAD, "$place/KIND/NAME"),
    ("$place/park/a/b", b"{}", BAD, "%2F"),
    ("$place/park/phoenix", b"{", BAD_JSON, "JSON"),
    ("$place/park/phoenix", b'{"type": "Point", "coordinates": [1, 2]}', BAD, "Point"),
    ("$place/park/phoenix", b'{"circle": {"center": [1, 2], "radius": 5}}', BAD, "Polygon"),
    ("$place/here/x", SQUARE, BAD, "here"),
    ("$area/gate", b"{", BAD_JSON, "JSON"),
    ("$area/gate", b"{}", BAD, '"area"'),
    ("$area/gate", b'{"area": "place:nowhere"}', BAD, "nowhere"),
    ("$area/gate", b'{"area": "circle:1,2,3", "nodes": "speed >"}', BAD, "^"),
    ("$area/gate", b'{"area": "circle:1,2,3", "where": "speed > 1"}', BAD, "where"),
    ("$me/feedback", b'{"id": "x", "opened": true}', NO_RIGHT, "not available yet"),
    ("$node/a/scripts/s", b'{"action": "add"}', NO_RIGHT, "rule that allows it"),
    ("$policy/role/medic", b"{}", BAD, "template, roles, awareness, matrix, servers"),
    ("$policy/matrix", b"{}", BAD, "$policy/KIND/NAME"),
    ("$policy/matrix/default", b'{"rows": [[1]]}', BAD, "3 rows"),
    ("$policy/matrix/default", b"[]", BAD_JSON, "Line 1"),
    ("$policy/template/t", b"\xff", BAD_JSON, "text"),
    ("$policy/template/t", b"<SUBSCRIPTION>\n<ATOM>", BAD_JSON, "Line 2"),
    ("$me/scripts", b"{}", NO_RIGHT, "$me/scripts"),
    ("$me/scripts/s", b"", BAD, "no script"),
    ("$me/publish/news", b'{"people": 1}', BAD, "people is a number of people from 2"),
    ("$me/subscriptions/n", b'{"subject": "n", "where": "template:x"}', BAD, "no template/x"),
    ("$node/a/position", b"1,2", NO_RIGHT, "$node/a/position"),
    ("$me", b"x", NO_RIGHT, "$me"),
    ("$me/", b"x", NO_RIGHT, "$me/"),
    ("$me/errors", b"x", NO_RIGHT, "$me/errors"),
    ("$me/nothing", b"x", NO_RIGHT, "$me/nothing"),
    ("$SYS/broker/uptime", b"x", NO_RIGHT, "$SYS"),
    ("$", b"x", NO_RIGHT, "$"),
]


@pytest.mark.parametrize(("pairs", "named"), BAD_SUBSCRIPTIONS, ids=str)
def test_a_bad_subscription_is_refused_whole_and_the_old_one_stays(
    broker: RunningBroker, pairs: tuple[tuple[str, str], ...], named: str
) -> None:
    subject, other = fresh("news"), fresh("news")
    receiver, publisher = Talker(broker), Talker(broker)
    receiver.subscribes(subject)

    codes = receiver.subscribes(subject, other, properties=Properties(user_properties=pairs))

    assert codes == (BAD, BAD)
    assert receiver.reason is not None
    assert named in receiver.reason
    publisher.says(subject, b"1")
    publisher.says(other, b"2")
    assert receiver.payloads() == [b"1"]


def test_the_caret_is_under_the_mistake(broker: RunningBroker) -> None:
    receiver = Talker(broker)

    receiver.wants(fresh("news"), where="speed > 5 AND kind IN 'car'")

    assert receiver.reason is not None
    *_, written, caret = receiver.reason.splitlines()[:3]
    assert written[caret.index("^")] == "'"


@pytest.mark.parametrize(("pairs", "named"), BAD_EVENTS, ids=str)
@pytest.mark.parametrize("qos", [1, 2])
def test_a_bad_event_is_refused_and_nothing_of_it_is_applied(
    broker: RunningBroker, pairs: tuple[tuple[str, str], ...], named: str, qos: int
) -> None:
    subject = fresh("news")
    receiver, publisher = Talker(broker), Talker(broker)
    receiver.subscribes(subject)
    properties = Properties(user_properties=pairs)

    assert publisher.sends(subject, b"bad", qos, True, properties) == BAD

    assert publisher.reason is not None
    assert named in publisher.reason
    assert publisher.says(subject, b"good") == ReasonCode.SUCCESS
    assert receiver.payloads() == [b"good"]
    late = Talker(broker)
    late.subscribes(subject)
    assert late.gets() == []


@pytest.mark.parametrize(("topic", "payload", "code", "named"), BAD_COMMANDS)
def test_a_bad_command_is_refused_and_the_session_lives_on(
    broker: RunningBroker, topic: str, payload: bytes, code: ReasonCode | None, named: str
) -> None:
    talker = Talker(broker)
    talker.subscribes("$me/errors")
    talker.moves(53.35, -6.26)

    found = talker.sends(topic, payload)

    assert found.failed
    assert code is None or found == code
    assert talker.reason is not None
    assert named in talker.reason
    assert talker.errors() == [{"error": talker.reason, "topic": topic}]
    watcher = Talker(broker)
    watcher.subscribes(f"$node/{talker.node}/position")
    assert watcher.payloads() == [b"53.35,-6.26"]


@pytest.mark.parametrize(("topic", "payload", "code", "named"), BAD_COMMANDS[::3])
@pytest.mark.parametrize("qos", [0, 1])
def test_a_client_without_reason_codes_reads_of_its_errors(
    broker: RunningBroker,
    topic: str,
    payload: bytes,
    code: ReasonCode | None,
    named: str,
    qos: int,
) -> None:
    talker = Talker(broker, version=MQTT_3_1_1)
    assert talker.subscribes("$me/errors") == (ReasonCode.GRANTED_QOS_1,)

    assert talker.sends(topic, payload, qos) == ReasonCode.SUCCESS

    (error,) = talker.errors()
    assert error["topic"] == topic
    assert named in error["error"]


def test_errors_are_private_and_come_only_to_those_who_asked(broker: RunningBroker) -> None:
    clumsy, other = Talker(broker), Talker(broker)
    other.subscribes("$me/errors", "#", "+/errors")

    clumsy.moves(100, 0)
    assert clumsy.gets() == []
    clumsy.subscribes("$me/errors")
    clumsy.moves(100, 0)

    assert len(clumsy.errors()) == 1
    assert other.gets() == []


def test_events_that_are_refused_are_told_of_in_their_order(broker: RunningBroker) -> None:
    # Together, so that one decision is on all of them; of QoS 0 nobody waits for an answer.
    receiver, publisher = Talker(broker), Talker(broker)
    subject = fresh("bad")
    assert not receiver.wants(subject, where="x > 1").failed
    publisher.subscribes("$me/errors")
    good, bad = words(at="0,0"), words(to="place:nowhere")
    topics = [f"{subject}/{n}" for n in range(8)]
    assert not receiver.wants(f"{subject}/#", where="x > 1").failed
    packets = []
    for n, topic in enumerate(topics):
        said = good if n in (2, 5) else bad
        packet_id = publisher.client.next_id() if n % 3 == 0 else 0
        packet = Publish(topic, b'{"x": 2}', int(n % 3 == 0), packet_id=packet_id)
        packets.append(packet.with_(said))
    # A command that is refused at once comes after those that wait.
    packets.append(Publish("$me/position", b"100,0"))
    publisher.client.send(*packets)

    told = [error["topic"] for error in publisher.errors()]

    assert told == [t for n, t in enumerate(topics) if n not in (2, 5)] + ["$me/position"]
    assert receiver.payloads() == [b'{"x": 2}'] * 2


def test_a_bad_subscription_in_3_1_1_is_0x80_and_its_reason_comes_as_an_error(
    broker: RunningBroker,
) -> None:
    talker = Talker(broker, version=MQTT_3_1_1)
    talker.subscribes("$me/errors")

    assert talker.subscribes("$me/position") == (ReasonCode.UNSPECIFIED_ERROR,)
    talker.names("n", subject="news", where="speed >")

    first, second = talker.errors()
    assert first["topic"] == "$me/position"
    assert second["topic"] == "$me/subscriptions/n"
    assert "^" in second["error"]


def test_a_named_subscription_that_is_refused_leaves_the_old_one(broker: RunningBroker) -> None:
    receiver, publisher = Talker(broker), Talker(broker)
    receiver.names("n", subject=(subject := fresh("news")))

    assert receiver.names("n", subject="other", where="speed >") == BAD

    publisher.says(subject, b"1")
    assert receiver.payloads() == [b"1"]


@pytest.mark.parametrize("topic_filter", ["$system/#", "$me/#", "$me/position", "$x"])
def test_topics_of_the_broker_that_nobody_reads_are_refused_without_disconnecting(
    broker: RunningBroker, topic_filter: str
) -> None:
    talker = Talker(broker)

    (code,) = talker.subscribes(topic_filter)

    assert code.failed
    assert talker.reason
    assert talker.moves(1, 2) == ReasonCode.SUCCESS


@pytest.mark.parametrize("topic_filter", ["$me/feedback", "$me/feedback/x"])
def test_topics_of_what_does_not_exist_yet_are_refused_as_such(
    broker: RunningBroker, topic_filter: str
) -> None:
    talker = Talker(broker)

    (code,) = talker.subscribes(topic_filter)

    assert code.failed
    assert "not available yet" in (talker.reason or "")


def test_wildcards_at_the_start_match_no_topic_of_the_broker(broker: RunningBroker) -> None:
    reader, mover = Talker(broker), Talker(broker)
    reader.subscribes("#", "+/#", f"+/{mover.node}/position")

    mover.moves(53.35, -6.26)
    mover.sends(f"$place/kind/{fresh('p')}", SQUARE)

    assert reader.gets() == []


def test_properties_are_refused_on_json_that_says_it_too(broker: RunningBroker) -> None:
    talker = Talker(broker)

    code = talker.sends("$me/publish/news", b'{"text": "x"}', 1, False, words(at="1,2"))

    assert code == BAD
    assert talker.reason is not None
    assert "both" in talker.reason


@pytest.mark.parametrize("client_id", ["me", "here", "me~phone", "~part"])
def test_reserved_names_are_no_nodes(broker: RunningBroker, client_id: str) -> None:
    client = broker.open()

    answer = client.connect(Connect(client_id, MQTT_5))

    assert answer.reason_code == ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
    assert client.end() == []


# Too many


@pytest.fixture
def narrow() -> Iterator[Callable[[Limits], RunningBroker]]:
    running: list[RunningBroker] = []

    def start(limits: Limits) -> RunningBroker:
        running.append(RunningBroker(Settings(limits=limits)))
        return running[-1]

    yield start
    for each in running:
        each.validate()
        each.stop()


def test_too_many_subscriptions_are_refused_named_ones_too(
    narrow: Callable[[Limits], RunningBroker],
) -> None:
    talker = Talker(narrow(Limits(subscriptions=2)))
    talker.subscribes("a")
    talker.names("b", subject="b")

    assert talker.names("c", subject="c") == TOO_MANY
    assert talker.subscribes("d") == (TOO_MANY,)
    assert talker.names("b", subject="e") == ReasonCode.SUCCESS, "this one is there already"


def test_too_many_properties_are_refused(narrow: Callable[[Limits], RunningBroker]) -> None:
    talker = Talker(narrow(Limits(user_properties=3)))
    many = Properties(user_properties=(("a", "1"),) * 4)

    assert talker.subscribes("a", "b", properties=many) == (TOO_MANY, TOO_MANY)
    assert talker.sends("a", b"x", 1, False, many) == TOO_MANY


def test_too_many_live_events_are_refused_of_every_kind(
    narrow: Callable[[Limits], RunningBroker],
) -> None:
    talker = Talker(narrow(Limits(retained=3)))
    talker.sends("retained", b"1", 1, True)
    talker.says("valid", b"2", valid="60")
    talker.says("object", b"3", object="o")

    assert talker.sends("another", b"4", 1, True) == TOO_MANY
    assert talker.says("valid", b"4", valid="60") == TOO_MANY
    assert talker.says("object", b"4", object="p") == TOO_MANY
    assert talker.sends("$place/kind/name", SQUARE) == TOO_MANY
    for again in (
        talker.sends("retained", b"5", 1, True),
        talker.says("object", b"5", object="o"),
        talker.says("object", b"", object="o", valid="0"),
        talker.says("valid", b"6", valid="60"),
    ):
        assert again == ReasonCode.SUCCESS


# Other packets


@pytest.mark.parametrize(
    ("pairs", "named"),
    [
        ((("nc-where", "speed > 5"),), "nc-where"),
        ((("nc-accept-encoding", "zstd"),) * 2, "twice"),
        ((("nc-p2p", "somewhere"),), "no host and port"),
        ((("nc-p2p", "127.0.0.1:70000"),), "no host and port"),
        ((("nc-p2p", "localhost:1"),), None),
        ((("nc-p2p", "cars.example:4711"),), None),
        ((("nc-accept-encoding", "zstd"), ("colour", "red")), None),
    ],
    ids=str,
)
def test_what_a_client_says_of_itself_must_be_known(
    broker: RunningBroker, pairs: tuple[tuple[str, str], ...], named: str | None
) -> None:
    said = Properties(user_properties=pairs)
    answer = broker.open().connect(Connect(fresh("client"), MQTT_5, properties=said))
    if named is None:
        assert answer.reason_code == ReasonCode.SUCCESS
    else:
        assert answer.reason_code == BAD
        assert named in (answer.properties.reason_string or "")


def test_options_of_a_bad_packet_do_not_matter(broker: RunningBroker) -> None:
    talker = Talker(broker)
    wanted = TopicFilter("a", 2, no_local=True, retain_handling=2)

    assert talker.subscribes(wanted, properties=words(where="(")) == (BAD,)
    assert talker.subscribes(wanted) == (ReasonCode.GRANTED_QOS_2,)


def test_words_of_ours_in_an_unsubscribe_are_refused(broker: RunningBroker) -> None:
    talker = Talker(broker)
    subject = fresh("news")
    talker.subscribes(subject)
    for properties, failed in ((words(where="x > 1"), True), (NO_PROPERTIES, False)):
        talker.client.send(Unsubscribe(talker.client.next_id(), (subject,), properties))
        answer = talker.client.wait_for(UnsubAck)
        assert [code.failed for code in answer.reason_codes] == [failed]
        assert ("nc-where" in (answer.properties.reason_string or "")) == failed
