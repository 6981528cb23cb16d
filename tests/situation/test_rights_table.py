"""Rights as a table: each way to use one, by what became of the right meanwhile."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nearcast.core.model.inputs import Unsubscribed
from nearcast.store import Gap, Store, input_of, rows_of
from nearcast.wire.mqtt import PingReq, PingResp, Properties, PubAck, Publish, TopicFilter, Will
from tests.situation.rights_house import RightsHouse, denying
from tests.support.accounts import with_users
from tests.support.clients.talker import Talker, words

SECRET = "secret/plans"
CASES = ("allowed", "denied", "revoked while connected", "revoked while away", "after a restart")
BLIND = '[[sight]]\nviewer = "node:alice"\nother = "node:bob"\nsee = []\n'


class Stage:
    """Alice, whose rights change as a case says, and bob, who may do everything."""

    def __init__(self, house: RightsHouse, rules: str, case: str) -> None:
        self.house = house
        self._rules = rules
        self.case = case
        if case == "denied":
            house.change(rules)

    def begin(self, will: Will | None = None, receive_maximum: int | None = None) -> None:
        self._will, self._maximum = will, receive_maximum
        self.alice = self.house.comes("alice", will=will, receive_maximum=receive_maximum)
        self.bob = self.house.comes("bob")

    def turn(self, returns: bool = True) -> None:
        """Let the case happen; whoever was away is back then, alice only if she returns."""
        house = self.house
        if self.case == "revoked while connected":
            house.change(self._rules)
        elif self.case == "revoked while away":
            house.lose(self.alice)
            house.change(self._rules)
        elif self.case == "after a restart":
            house.lose(self.alice)
            house.stop()
            house.write(self._rules)
            house.start()
            self.bob = house.comes("bob")
        if returns and self.case in CASES[3:]:
            self.alice = house.comes("alice", receive_maximum=self._maximum)
            assert self.alice.returned
        if not returns and self.case in CASES[:3]:
            house.lose(self.alice)


def got(talker: Talker, payload: bytes) -> bool:
    return payload in talker.payloads()


def may_subscribe(stage: Stage) -> bool:
    stage.begin()
    stage.alice.subscribes(SECRET)
    stage.turn()
    stage.bob.sends(SECRET, b"word")
    return got(stage.alice, b"word")


def may_subscribe_by_name(stage: Stage) -> bool:
    stage.begin()
    stage.alice.names("wish", subject="secret/#", where="pin > 1")
    stage.turn()
    stage.bob.sends(SECRET, b'{"pin": 2}')
    return got(stage.alice, b'{"pin": 2}')


def may_publish(stage: Stage) -> bool:
    stage.begin()
    stage.bob.subscribes(SECRET)
    stage.turn()
    stage.alice.sends(SECRET, b"word")
    return got(stage.bob, b"word")


def may_leave_a_will(stage: Stage) -> bool:
    delayed = Properties(will_delay_interval=60)
    will = Will(SECRET, b"last", 1, False, delayed)
    if stage.case == "denied":
        with pytest.raises(AssertionError, match="forbids the will"):
            stage.begin(will)
        stage.bob = stage.house.comes("bob")
    else:
        stage.begin(will)
        stage.bob.subscribes(SECRET)
        stage.turn(returns=False)
    stage.house.broker.later(120)
    return got(stage.bob, b"last")


def may_have_what_is_retained(stage: Stage) -> bool:
    stage.begin()
    stage.bob.sends(SECRET, b"kept", retain=True)
    stage.turn()
    stage.alice.subscribes(SECRET)
    return got(stage.alice, b"kept")


def may_meet_live_events(stage: Stage) -> bool:
    stage.begin()
    stage.alice.moves(10, 10)
    stage.alice.subscribes(SECRET)
    stage.bob.says(SECRET, b"here", to="circle:20,20,500", valid="5000")
    stage.turn()
    stage.alice.moves(20, 20)
    return got(stage.alice, b"here")


def may_have_what_waits(stage: Stage) -> bool:
    stage.begin(receive_maximum=1)
    stage.alice.subscribes("open", SECRET)
    stage.bob.sends("open", b"first")
    stage.bob.sends(SECRET, b"second")
    (in_flight,) = (each for each in stage.alice.client.rest() if isinstance(each, Publish))
    stage.turn()
    if stage.case in CASES[:3]:
        stage.alice.client.send(PubAck(in_flight.packet_id))
    return got(stage.alice, b"second")


def may_count(stage: Stage) -> bool:
    stage.begin()
    stage.alice.wants("asked", where="count('secret/#', '') > 0")
    stage.bob.sends(SECRET, b"word")
    stage.turn()
    stage.bob.sends("asked", b"now")
    return got(stage.alice, b"now")


def may_define_a_place(stage: Stage) -> bool:
    stage.begin()
    stage.bob.subscribes("$place/zone/#")
    stage.turn()
    square = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}
    stage.alice.sends("$place/zone/a", json.dumps(square).encode())
    return bool(stage.bob.gets())


def may_hear_of_an_area(stage: Stage) -> bool:
    stage.begin()
    stage.bob.sends("$area/yard", b'{"area": "circle:50,8,300"}')
    stage.bob.moves(51, 8)
    stage.alice.subscribes("$area/yard")
    stage.turn()
    stage.bob.moves(50, 8)
    return any(message.topic == "$area/yard" for message in stage.alice.gets())


def may_hear_later_of_an_area(stage: Stage) -> bool:
    stage.begin(receive_maximum=1)
    stage.bob.sends("$area/yard", b'{"area": "circle:50,8,300"}')
    stage.bob.moves(51, 8)
    stage.alice.subscribes("open", "$area/yard")
    stage.bob.sends("open", b"first")
    stage.bob.moves(50, 8)
    return _waits(stage, "$area/yard")


def may_hear_of_a_relationship(stage: Stage) -> bool:
    stage.begin()
    stage.bob.sends("$relate/pair", b'{"members": ["alice", "bob"], "within": 300}')
    stage.bob.moves(51, 8)
    stage.alice.moves(50, 8)
    stage.alice.subscribes("$relate/pair")
    stage.turn()
    stage.alice.gets()
    stage.bob.moves(50, 8)
    return any(message.topic == "$relate/pair" for message in stage.alice.gets())


def may_hear_later_of_a_relationship(stage: Stage) -> bool:
    stage.begin(receive_maximum=1)
    stage.bob.sends("$relate/pair", b'{"members": ["alice", "bob"], "within": 300}')
    stage.bob.moves(51, 8)
    stage.alice.moves(50, 8)
    stage.alice.subscribes(
        TopicFilter("open", 1), TopicFilter("$relate/pair", 1, retain_handling=2)
    )
    stage.bob.sends("open", b"first")
    stage.bob.moves(50, 8)
    return _waits(stage, "$relate/pair")


def may_read_of_a_node(stage: Stage) -> bool:
    stage.begin()
    stage.alice.subscribes("$node/bob/position")
    stage.turn()
    stage.alice.gets()
    stage.bob.moves(50, 8)
    return got(stage.alice, b"50,8")


def may_read_later_of_a_node(stage: Stage) -> bool:
    stage.begin(receive_maximum=1)
    stage.alice.subscribes("open", "$node/bob/position")
    stage.bob.sends("open", b"first")
    stage.bob.moves(50, 8)
    return _waits(stage, "$node/bob/position")


def _waits(stage: Stage, topic: str) -> bool:
    """Whether alice gets what waits behind a message that she has not acknowledged."""
    client = stage.alice.client
    client.send(PingReq())
    unacknowledged = 0
    while not isinstance(packet := client.receive(), PingResp):
        if isinstance(packet, Publish):
            unacknowledged = packet.packet_id
    stage.turn()
    if stage.case in CASES[:3]:
        stage.alice.client.send(PubAck(unacknowledged))
    return any(message.topic == topic for message in stage.alice.gets())


def may_have_it_explained(stage: Stage) -> bool:
    stage.begin()
    stage.alice.subscribes(SECRET)
    stage.bob.says(SECRET, id="hidden")
    stage.turn()
    stage.bob.says("open", id="shown")
    while stage.house.asks("alice", "/api/explain/shown/alice").status != 200:
        # It is in the log a moment later.
        stage.alice.gets()
    return stage.house.asks("alice", "/api/explain/hidden/alice").status == 200


def may_list_events(stage: Stage) -> bool:
    stage.begin()
    stage.bob.sends(SECRET, b"word")
    stage.turn()
    stage.bob.sends("open", b"word")
    subjects: set[str] = set()
    while "open" not in subjects:
        listed = json.loads(stage.house.asks("alice", "/api/events").body)
        subjects = {event["subject"] for event in listed}
    return SECRET in subjects


TOPICS = denying("secret/#", "$place/#", "$area/#", "$relate/#", "$node/#")
ROWS: dict[str, tuple[Callable[[Stage], bool], str]] = {
    "subscribe": (may_subscribe, TOPICS),
    "subscribe by name": (may_subscribe_by_name, TOPICS),
    "subscribe, overlapping": (may_subscribe_by_name, denying("secret/+/draft")),
    "publish": (may_publish, TOPICS),
    "will": (may_leave_a_will, TOPICS),
    "retained": (may_have_what_is_retained, TOPICS),
    "live": (may_meet_live_events, TOPICS),
    "queue": (may_have_what_waits, TOPICS),
    "count": (may_count, TOPICS),
    "place": (may_define_a_place, TOPICS),
    "explain": (may_have_it_explained, TOPICS),
    "API": (may_list_events, TOPICS),
    "area": (may_hear_of_an_area, TOPICS),
    "area by sight": (may_hear_of_an_area, BLIND),
    "area by sight, queued": (may_hear_later_of_an_area, BLIND),
    "relationship": (may_hear_of_a_relationship, TOPICS),
    "relationship by sight": (may_hear_of_a_relationship, BLIND),
    "relationship by sight, queued": (may_hear_later_of_a_relationship, BLIND),
    "node": (may_read_of_a_node, TOPICS),
    "node by sight": (may_read_of_a_node, BLIND),
    "node by sight, queued": (may_read_later_of_a_node, BLIND),
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[RightsHouse]:
    found = RightsHouse(tmp_path)
    yield found
    found.broker.validate()
    found.stop()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("right", ROWS)
def test_rights_follow_the_rules_of_now(house: RightsHouse, right: str, case: str) -> None:
    use, rules = ROWS[right]
    assert use(Stage(house, rules, case)) is (case == "allowed")


def test_who_lost_a_right_is_told_at_once(house: RightsHouse) -> None:
    alice = house.comes("alice", will=Will("secret/will", b"x"))
    alice.subscribes("$me/errors", "secret/#", "open")
    alice.names("wish", subject="+/plans")
    house.change(denying("secret/#"))

    told = {each["topic"]: each["error"] for each in alice.errors()}
    assert set(told) == {"secret/#", "$me/subscriptions/wish", "secret/will"}
    assert "a rule forbids" in told["secret/#"]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("subscribed", [False, True])
def test_who_was_away_is_told_when_it_returns(
    house: RightsHouse, restarted: bool, subscribed: bool
) -> None:
    alice, bob = house.comes("alice"), house.comes("bob")
    alice.subscribes("secret/#", *(["$me/errors"] if subscribed else []))
    house.lose(alice)
    bob.sends(SECRET, b"word")
    if restarted:
        house.stop()
        house.write(denying("secret/#"))
        house.start()
        house.stop()
        house.start()
    else:
        house.change(denying("secret/#"))
    alice = house.comes("alice")
    if not subscribed:
        alice.subscribes("$me/errors")

    assert [each["topic"] for each in alice.errors()] == ["secret/#", SECRET]
    house.lose(alice)
    assert house.comes("alice").errors() == []


def test_many_ended_subscriptions_are_told_in_few_words(house: RightsHouse) -> None:
    alice = house.comes("alice")
    alice.subscribes("$me/errors", *(f"secret/{number}" for number in range(100)))
    house.lose(alice)
    house.change(denying("secret/#"))

    assert len(house.comes("alice").errors()) == 20


def test_a_message_that_another_subscription_asks_for_stays(house: RightsHouse) -> None:
    alice, bob = house.comes("alice"), house.comes("bob")
    alice.subscribes("news/#", "news/today", "news/old")
    alice.client.unsubscribe("news/old")
    house.lose(alice)
    for subject in ("news/today", "news/sport", "news/secret"):
        bob.sends(subject, subject.encode())
    house.change(denying("news/secret"))
    alice = house.comes("alice")

    assert alice.payloads() == [b"news/today"]
    bob.sends("news/today", b"still")
    bob.sends("news/sport", b"no more")
    assert alice.payloads() == [b"still"]
    statistics = house.broker.server.statistics()
    assert statistics["dropped_by_rules_total"] == 2
    assert statistics["revoked_subscriptions_total"] == 1


def test_who_is_no_longer_a_superuser_loses_what_rules_forbid(tmp_path: Path) -> None:
    rules = denying("secret/#", who="all")
    house = RightsHouse(tmp_path, rules, superusers=["alice", "bob"])
    alice, bob = house.comes("alice"), house.comes("bob")
    alice.subscribes("secret/#")
    house.lose(alice)
    bob.sends(SECRET, b"before")
    with_users(house.data, "bob")
    house.broker.reload()
    alice, bob = house.comes("alice"), house.comes("bob")
    bob.sends(SECRET, b"after")

    assert alice.payloads() == []
    house.stop()


def test_unchanged_rules_end_nothing(house: RightsHouse) -> None:
    rules = denying("secret/#")
    house.change(rules)
    alice, bob = house.comes("alice"), house.comes("bob")
    alice.subscribes("open", "$me/errors")
    alice.subscribes("meta", properties=words(meta="1"))
    house.lose(alice)
    for subject in ("open", "meta"):
        bob.sends(subject, b"x")
    house.change(rules)
    alice = house.comes("alice")

    assert alice.payloads() == [b"x", b"x"]


def test_an_end_by_rules_is_in_the_log(house: RightsHouse) -> None:
    alice = house.comes("alice")
    alice.subscribes("secret/#", "open")
    house.change(denying("secret/#"))
    house.broker.validate()
    house.stop()
    store = Store(house.data, "local")
    parts = [part for part in store.log.read() if not isinstance(part, Gap)]
    inputs = [input_of(row) for part in parts for row in rows_of(part)]
    store.close()
    house.start()

    assert [each.id for each in inputs if isinstance(each, Unsubscribed)] == ["alice\0secret/#"]
