"""Who subscribes to what can never match for want of something is told so, and only then."""

from pathlib import Path

import pytest

from nearcast.broker.config.settings import AuthSection, Settings
from nearcast.core.engine.queries.attribute_watch import ENOUGH
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    Properties,
    Publish,
    ReasonCode,
    SubAck,
    Subscribe,
    TopicFilter,
)
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import Talker, words
from tests.support.running_broker import RunningBroker

SQUARE = b'{"type": "Polygon", "coordinates": [[[-7, 53], [-6, 53], [-6, 54], [-7, 54], [-7, 53]]]}'
NO_POSITION = "me has no position yet: nothing can match `from`; publish $me/position"


def listening(broker: RunningBroker, version: int = MQTT_5) -> Talker:
    """Somebody who hears of errors."""
    talker = Talker(broker, version=version)
    talker.subscribes("$me/errors")
    return talker


def test_a_subscription_round_me_without_a_position_is_granted_with_a_warning(
    broker: RunningBroker,
) -> None:
    talker = Talker(broker)
    assert talker.wants("a", from_="circle:me,500") is ReasonCode.GRANTED_QOS_1
    assert talker.reason == NO_POSITION
    assert talker.wants("a", where="distance(me, event) < 500") is ReasonCode.GRANTED_QOS_1
    assert talker.reason == NO_POSITION.replace("from", "where")
    talker.moves(53.0, -6.0)
    assert talker.wants("a", from_="circle:me,500") is ReasonCode.GRANTED_QOS_1
    assert talker.reason is None


@pytest.mark.parametrize(
    "where", ["speed > 5", "speed > 5 OR distance(me, event) < 500", "me.position IS NULL"]
)
def test_what_can_match_without_a_position_is_granted_without_a_word(
    broker: RunningBroker, where: str
) -> None:
    talker = Talker(broker)
    assert talker.wants("a", where=where) is ReasonCode.GRANTED_QOS_1
    assert talker.reason is None


def test_a_function_that_is_not_asked_where_the_pipeline_decides_is_told(tmp_path: Path) -> None:
    settings = Settings(decide={"crowd/quick": "edge", "crowd/#": "spark"})
    broker = RunningBroker(settings, tmp_path)
    try:
        talker = Talker(broker)
        by_function = '{"function": "def aggregability(me, other): return \'volume 2\'"}'
        for topic in ("crowd/noise", "+/noise", "#"):
            talker.wants(topic, aggregate=by_function)
            assert talker.reason is not None
            assert "events on crowd/# are decided in the pipeline" in talker.reason
        talker.wants("road", aggregate=by_function)
        assert talker.reason is None
        talker.wants("crowd/noise", aggregate="volume 2")
        assert talker.reason is None
    finally:
        broker.stop()


def test_a_position_that_came_in_the_same_packet_counts(broker: RunningBroker) -> None:
    talker = Talker(broker)
    talker.client.send(
        talker.client.encode(_position("53,-6")) + talker.client.encode(_subscribe("circle:me,5"))
    )
    answer = talker.client.wait_for(SubAck)
    assert answer.properties.reason_string is None


def test_who_wants_no_reasons_is_told_on_errors_if_it_asked(broker: RunningBroker) -> None:
    quiet = Properties(request_problem_information=False)
    client = broker.client(properties=quiet)
    talker = Talker.__new__(Talker)
    talker.client, talker.version, talker.name = client, MQTT_5, client.client_id
    talker.subscribes("$me/errors")
    assert talker.wants("a", from_="circle:me,500") is ReasonCode.GRANTED_QOS_1
    assert talker.reason is None
    assert talker.errors() == [{"warning": NO_POSITION, "topic": "a"}]


@pytest.mark.parametrize("version", [MQTT_5, MQTT_3_1_1])
def test_a_named_subscription_is_warned_of_on_errors(broker: RunningBroker, version: int) -> None:
    talker = listening(broker, version)
    talker.names("near", subject="a", **{"from": "circle:me,500"})
    topic = "$me/subscriptions/near"
    assert talker.errors() == [{"warning": NO_POSITION, "topic": topic}]


def test_who_asks_for_errors_later_is_told_what_is_so(broker: RunningBroker) -> None:
    talker = Talker(broker, version=MQTT_3_1_1)
    talker.names("near", subject="a", **{"from": "circle:me,500"})
    talker.names("fine", subject="a", where="x = 1")
    talker.subscribes("$me/errors")
    assert [each["topic"] for each in talker.errors()] == ["$me/subscriptions/near"]


def test_a_node_that_is_unknown_hidden_or_nowhere_gets_one_text(tmp_path: Path) -> None:
    rules = """
        [[sight]]
        other = "node:hidden*"
        see = []
    """
    hidden, nowhere, unknown, other = fresh("hidden"), fresh("nowhere"), fresh("ghost"), fresh("x")
    broker = _with_rules(tmp_path, rules)
    try:
        Talker(broker, hidden).moves(53.0, -6.0)
        Talker(broker, nowhere)
        Talker(broker, other).moves(53.0, -6.0)
        talker = Talker(broker)
        texts = set()
        for name in (hidden, nowhere, unknown):
            assert not talker.wants("a", from_=f"circle:{name},500").failed
            assert talker.reason is not None
            texts.add(talker.reason.replace(name, "NODE"))
        (text,) = texts
        assert text == "'NODE' has no position that you may see: nothing can match `from`"
        assert not talker.wants("a", from_=f"circle:{other},500").failed
        assert talker.reason is None
    finally:
        broker.stop()


def test_it_is_told_when_a_position_is_lost_and_not_when_it_comes(broker: RunningBroker) -> None:
    talker, other = listening(broker), Talker(broker)
    other.moves(53.0, -6.0)
    talker.wants("a", from_="circle:me,500")
    talker.wants("b", from_=f"circle:{other.node},500")
    talker.moves(53.0, -6.0)
    assert talker.errors() == []
    other.sends("$me/position", b"")
    (lost,) = talker.errors()
    assert lost["topic"] == "b"
    assert lost["warning"].startswith(repr(other.node))
    # It is too old after ten minutes.
    broker.later(601.0)
    assert talker.errors() == [{"warning": NO_POSITION, "topic": "a"}]


def test_there_is_at_most_one_a_minute_and_none_is_lost(broker: RunningBroker) -> None:
    talker = listening(broker)
    talker.wants("a", from_="circle:me,500")
    for _ in range(5):
        talker.moves(53.0, -6.0)
        talker.sends("$me/position", b"")
    assert len(talker.errors()) == 1
    broker.later(30.0)
    assert talker.errors() == []
    broker.later(31.0)
    assert talker.errors() == [{"warning": NO_POSITION, "topic": "a"}]
    broker.later(120.0)
    assert talker.errors() == []


def test_who_subscribes_again_and_again_is_told_once_a_minute(broker: RunningBroker) -> None:
    talker = listening(broker, MQTT_3_1_1)
    for _ in range(5):
        talker.names("near", subject="a", **{"from": "circle:me,500"})
    assert len(talker.errors()) == 1
    assert len(broker.server.hub.warnings._due) == 1
    broker.later(61.0)
    assert len(talker.errors()) == 1
    broker.later(61.0)
    assert talker.errors() == []
    assert not broker.server.hub.warnings._due


def test_what_was_too_soon_to_be_told_is_not_told_once_it_is_met(broker: RunningBroker) -> None:
    talker = listening(broker)
    talker.wants("a", from_="circle:me,500")
    for _ in range(2):
        talker.moves(53.0, -6.0)
        talker.sends("$me/position", b"")
    assert len(talker.errors()) == 1
    talker.moves(53.0, -6.0)
    broker.later(61.0)
    assert talker.errors() == []


def test_a_place_that_is_removed_is_told(broker: RunningBroker) -> None:
    talker, place = listening(broker), fresh("park")
    assert talker.wants("a", from_=f"place:{place}").failed
    talker.errors()
    talker.sends(f"$place/park/{place}", SQUARE, retain=True)
    assert not talker.wants("a", from_=f"place:{place}").failed
    assert talker.errors() == []
    talker.sends(f"$place/park/{place}", b"", retain=True)
    (told,) = talker.errors()
    assert told["topic"] == "a"
    assert place in told["warning"]
    assert told["warning"].endswith("nothing can match `from`")


@pytest.mark.parametrize(
    ("where", "advice"),
    [
        ('delay = "4"', '"4" in double quotes is an attribute\'s name; a number takes none: 4'),
        ('kind = "bus"', '"bus" in double quotes is an attribute\'s name; text takes single'),
        ('kind IN ("bus")', "text takes single quotes: 'bus'"),
    ],
)
def test_a_value_in_double_quotes_is_named(broker: RunningBroker, where: str, advice: str) -> None:
    talker = Talker(broker)
    assert not talker.wants("a", where=where).failed
    assert talker.reason is not None
    assert advice in talker.reason


@pytest.mark.parametrize("version", [MQTT_5, MQTT_3_1_1])
def test_an_attribute_that_no_event_has_had_is_told_once(
    broker: RunningBroker, version: int
) -> None:
    talker, other, subject = listening(broker, version), Talker(broker), fresh("trams")
    talker.wants(f"{subject}/#", where="delai > 2")
    for _ in range(ENOUGH - 1):
        other.says(f"{subject}/7", b'{"delay": 3}')
    assert talker.errors() == []
    other.says(f"{subject}/7", b"no JSON at all")
    (told,) = talker.errors()
    assert told["topic"] == (f"{subject}/#" if version == MQTT_5 else "$me/subscriptions/wish")
    assert "'delai'" in told["warning"]
    for _ in range(2 * ENOUGH):
        other.says(f"{subject}/7", b'{"delay": 3}')
    assert talker.errors() == []


def test_an_attribute_that_one_event_has_had_is_fine(broker: RunningBroker) -> None:
    talker, other, subject = listening(broker), Talker(broker), fresh("trams")
    talker.wants(subject, where="delay > 2 AND a.b = 1")
    other.says(subject, b'{"delay": 3, "a": {"b": 0}}')
    for _ in range(2 * ENOUGH):
        other.says(subject, b"{}")
    assert talker.errors() == []


def test_events_that_the_asker_could_not_have_got_say_nothing(broker: RunningBroker) -> None:
    talker, other, subject = listening(broker), Talker(broker), fresh("trams")
    talker.wants(subject, where="secret = 1")
    # Not for this one, who is nowhere.
    for _ in range(2 * ENOUGH):
        other.says(subject, b'{"secret": 1}', to="circle:10,10,5")
    assert talker.errors() == []
    for _ in range(ENOUGH):
        other.says(subject, b"{}")
    assert "'secret'" in talker.errors()[0]["warning"]


def test_who_comes_back_without_a_position_is_told_after_a_while(broker: RunningBroker) -> None:
    name = fresh("client")
    first = Talker(broker, name, expiry=10_000)
    first.subscribes("$me/errors")
    first.moves(53.0, -6.0)
    first.wants("a", from_="circle:me,500")
    broker.lose(first.client)
    broker.later(700.0)
    again = Talker(broker, name, clean=False, expiry=10_000)
    assert again.errors() == []
    broker.later(6.0)
    assert again.errors() == [{"warning": NO_POSITION, "topic": "a"}]


def test_a_target_round_one_who_is_nowhere_is_told(broker: RunningBroker) -> None:
    talker, other = listening(broker), Talker(broker)
    assert not talker.says("a", to="circle:me,500").failed
    assert talker.errors() == [
        {"warning": "me has no position yet: `to` holds nobody", "topic": "a"}
    ]
    talker.says("a", to="circle:me,500")
    talker.says("b", to=f"circle:{other.node},500")
    (told,) = talker.errors()
    assert told["topic"] == "b"
    talker.moves(53.0, -6.0)
    talker.says("c", to="circle:me,500")
    talker.announces("d", to="circle:me,500")
    assert talker.errors() == []
    talker.sends("$me/position", b"")
    talker.announces("d", to="circle:me,500")
    assert [each["topic"] for each in talker.errors()] == ["$me/announcements/d"]


def test_nothing_is_kept_of_those_who_are_gone(broker: RunningBroker) -> None:
    talker = listening(broker)
    talker.wants("a", from_="circle:me,500", where="nosuch = 1")
    talker.names("b", subject="b", where="nosuch = 1")
    talker.client.unsubscribe("a")
    talker.gets()
    broker.lose(talker.client)
    Talker(broker).gets()
    warnings = broker.server.hub.warnings
    assert not any(each.owner == talker.name for each in warnings._watched.values())
    assert not len(broker.server.hub.engine.attribute_watch)


def _position(text: str) -> Publish:
    return Publish("$me/position", text.encode())


def _subscribe(area: str) -> Subscribe:
    return Subscribe(9, (TopicFilter("a", 1),), words(from_=area))


def _with_rules(data: Path, rules: str) -> RunningBroker:
    path = data / "rules.toml"
    path.write_text(rules)
    return RunningBroker(Settings(doors=AuthSection(rules=str(path))), data)
