"""Relationships tell when nodes come near each other, and when they part."""

import json

import pytest

from nearcast.wire.mqtt import ReasonCode
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker, at
from tests.support.running_broker import RunningBroker

BAD, BAD_JSON = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, ReasonCode.PAYLOAD_FORMAT_INVALID


class Group:
    """Members, who defines a relationship between them, and who reads of it."""

    def __init__(self, broker: RunningBroker, count: int = 2, version: int = 5) -> None:
        self.name = fresh("convoy")
        self.topic = f"$relate/{self.name}"
        self.definer, self.reader = Talker(broker, version=version), Talker(broker, version=version)
        self.members = [Talker(broker) for _ in range(count)]
        self.nodes = [each.node for each in self.members]

    def stand(self, *metres: float) -> None:
        for member, each in zip(self.members, metres, strict=True):
            member.moves(*at(each))

    def define(self, **said: object) -> ReasonCode:
        wanted = {"members": self.nodes, **said}
        return self.definer.sends(self.topic, json.dumps(wanted).encode())

    def end(self) -> ReasonCode:
        return self.definer.sends(self.topic)

    def read(self) -> None:
        assert self.reader.subscribes(self.topic)[0] < 0x80

    def told(self) -> list[dict[str, object]]:
        return [json.loads(message.payload) for message in self.reader.gets()]

    def states(self) -> list[object]:
        return [each["state"] for each in self.told()]


@pytest.mark.parametrize("version", VERSIONS)
def test_near_and_apart_alternate_and_tell_members_distance_and_time(
    broker: RunningBroker, version: int
) -> None:
    group = Group(broker, version=version)
    group.stand(0, 500)
    assert group.define(within=100) == ReasonCode.SUCCESS
    group.read()

    (message,) = group.reader.gets()
    assert message.retain
    assert message.topic == group.topic
    first = json.loads(message.payload)
    assert first.keys() == {"state", "members", "distance", "time"}
    assert first["state"] == "apart"
    assert first["members"] == group.nodes
    assert first["distance"] == pytest.approx(500, rel=0.01)

    for metres in (300, 90, 50, 99, 150, 200, 0):
        group.members[1].moves(*at(metres))
    told = group.reader.gets()
    states = [json.loads(message.payload) for message in told]
    assert [(each["state"], round(each["distance"], -1)) for each in states] == [
        ("near", 90), ("apart", 150), ("near", 0),
    ]  # fmt: skip
    assert not any(message.retain for message in told)


def test_defining_tells_the_state_of_now_and_subscribing_since_when_it_is_so(
    broker: RunningBroker,
) -> None:
    group = Group(broker)
    group.stand(0, 50)
    group.read()
    assert group.told() == []

    group.define(within=100)
    (defined,) = group.told()
    assert (defined["state"], defined["members"]) == ("near", group.nodes)
    broker.later(50)
    group.stand(10, 50)
    group.read()
    (now,) = group.told()
    assert now["time"] == defined["time"]
    assert now["distance"] == pytest.approx(40, rel=0.01)
    # Another condition for the same members.
    group.define(within=10)
    assert group.states() == ["apart"]


def test_whoever_was_told_near_is_told_that_it_ended_and_nobody_else(
    broker: RunningBroker,
) -> None:
    group = Group(broker)
    group.stand(0, 50)
    group.define(within=100)
    group.read()
    assert group.states() == ["near"]
    group.end()
    (ended,) = group.told()
    assert ended.keys() == {"state", "ended", "time"}
    assert (ended["state"], ended["ended"]) == ("apart", True)
    # It is gone: nobody follows its members, and a new reader gets nothing.
    group.stand(0, 5_000)
    group.read()
    assert group.told() == []
    group.define(within=100)
    assert group.states() == ["apart"]
    group.end()
    assert group.told() == []


def test_forgetting_a_member_ends_it(broker: RunningBroker) -> None:
    group = Group(broker)
    group.stand(0, 50)
    group.define(within=100)
    group.read()
    group.told()
    broker.run(broker.server.forget(group.nodes[1]))
    assert [each.get("ended") for each in group.told()] == [True]


@pytest.mark.parametrize(
    ("need", "metres", "state", "far"),
    [
        ("all", (0, 50, 190), "apart", 190),
        ("all", (0, 50, 90), "near", 90),
        ("any", (0, 500, 590), "near", 90),
        ("any", (0, 500, 610), "apart", 110),
        (2, (0, 60, 700), "near", 60),
        (3, (0, 60, 700, 90), "near", 90),
        (3, (0, 60, 700, 790), "apart", 700),
    ],
)
def test_all_any_or_some_members_are_needed(
    broker: RunningBroker, need: object, metres: tuple[int, ...], state: str, far: float
) -> None:
    group = Group(broker, len(metres))
    group.stand(*metres)
    group.define(within=100, need=need)
    group.read()
    (now,) = group.told()
    assert (now["state"], now["members"]) == (state, group.nodes)
    assert now["distance"] == pytest.approx(far, rel=0.01)


def test_each_member_may_have_metres_of_its_own(broker: RunningBroker) -> None:
    group = Group(broker)
    group.stand(0, 1_000)
    one, other = group.nodes
    group.define(members={one: 100, other: 500})
    group.read()
    assert {(each["by"], each["state"]) for each in group.told()} == {
        (one, "apart"), (other, "apart"),
    }  # fmt: skip
    for metres in (300, 50, 300, 900):
        group.members[1].moves(*at(metres))
    assert [(each["by"], each["state"], round(float(str(each["distance"])), -1)) for each in
            group.told()] == [
        (other, "near", 300), (one, "near", 50), (one, "apart", 300), (other, "apart", 900),
    ]  # fmt: skip
    group.stand(0, 0)
    group.told()
    group.end()
    assert [each.get("ended") for each in group.told()] == [True], "once, not once for each"


def test_beyond_tells_when_members_are_farther_and_waits_for_who_is_nowhere(
    broker: RunningBroker,
) -> None:
    group = Group(broker)
    group.stand(0, 50)
    group.define(beyond=100)
    group.read()
    assert group.states() == ["near"]
    group.members[1].moves(*at(200))
    assert group.states() == ["apart"]
    # Its position is lost: the state stays, until it is seen again.
    group.members[1].sends("$me/position")
    assert group.states() == []
    group.members[1].moves(*at(99))
    assert group.states() == ["near"]
    group.members[1].sends("$me/position")
    group.members[1].moves(*at(90))
    assert group.states() == []


def test_who_has_no_position_is_not_near_also_when_it_is_too_old(broker: RunningBroker) -> None:
    group = Group(broker)
    group.define(within=100)
    group.read()
    group.members[0].moves(*at(0))
    (first,) = group.told()
    assert (first["state"], first["distance"]) == ("apart", None)
    group.members[1].moves(*at(0))
    assert group.states() == ["near"]
    broker.later(500)
    group.members[0].moves(*at(0))
    broker.later(101)
    (expired,) = group.told()
    assert (expired["state"], expired["distance"]) == ("apart", None)
    group.members[1].moves(*at(10))
    assert group.states() == ["near"]


def test_a_quantity_may_be_compared_and_does_not_age(broker: RunningBroker) -> None:
    group = Group(broker)
    group.define(within=2, of="cargo.temperature")
    group.read()
    one, other = group.members
    one.is_now(cargo={"temperature": 4})
    other.is_now(cargo={"temperature": "4"})
    assert group.states() == ["apart"]
    other.is_now(cargo={"temperature": 6})
    (near,) = group.told()
    assert (near["state"], near["distance"]) == ("near", 2)
    broker.later(10_000)
    assert group.states() == []
    other.is_now(cargo={"temperature": 6.5})
    other.is_now(cargo={"temperature": 1})
    assert [(each["state"], each["distance"]) for each in group.told()] == [("apart", 2.5)]
    other.is_now(cargo={"temperature": 5})
    other.is_now(cargo=None)
    assert group.states() == ["near", "apart"]


def test_who_does_not_fit_a_filter_counts_as_nowhere(broker: RunningBroker) -> None:
    group = Group(broker)
    group.stand(0, 10)
    group.define(within=100, where="on_duty = TRUE AND battery > 20")
    group.read()
    assert group.states() == ["apart"]
    for member in group.members:
        member.is_now(on_duty=True, battery=50)
    assert group.states() == ["near"]
    group.members[0].is_now(battery=20)
    assert group.states() == ["apart"]


def test_me_is_the_node_that_defines_it(broker: RunningBroker) -> None:
    group = Group(broker)
    group.definer.moves(*at(0))
    group.members[0].moves(*at(10))
    group.define(members=["me", group.nodes[0]], within=100)
    group.read()
    (now,) = group.told()
    assert now["members"] == [group.definer.node, group.nodes[0]]


def test_filters_of_readers_see_the_state(broker: RunningBroker) -> None:
    group = Group(broker)
    group.define(within=100)
    group.reader.wants(group.topic, where="state = 'near' AND distance < 50")
    group.stand(0, 90)
    group.stand(0, 900)
    group.stand(0, 10)
    (near,) = group.told()
    assert near["distance"] == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({}, '"members"'),
        ({"members": ["a", "b"]}, '"within" or "beyond"'),
        ({"members": ["a"], "within": 5}, "at least two members"),
        ({"members": ["a", "a"], "within": 5}, "twice"),
        ({"members": ["a", "b~1"], "within": 5}, "such as 'b'"),
        ({"members": ["a", ""], "within": 5}, "empty"),
        ({"members": ["a", 7], "within": 5}, "names of nodes"),
        ({"members": "ab", "within": 5}, '["truck-1", "truck-2"]'),
        ({"members": [f"n{n}" for n in range(101)], "within": 5}, "at most 100"),
        ({"members": ["a", "b"], "within": 5, "beyond": 6}, '"within" or "beyond"'),
        ({"members": {"a": 5, "b": 6}, "within": 5}, 'no "within"'),
        ({"members": {"a": 5, "b": None}}, "not null"),
        ({"members": {"a": 5, "b": "6"}}, "'b' is a number"),
        ({"members": ["a", "b"], "within": -1}, "from 0"),
        ({"members": ["a", "b"], "within": True}, "number"),
        ({"members": ["a", "b"], "within": 5, "need": 1}, "2 to 2"),
        ({"members": ["a", "b"], "within": 5, "need": 3}, "2 to 2"),
        ({"members": ["a", "b"], "within": 5, "need": "some"}, '"all", "any"'),
        ({"members": ["a", "b"], "within": 5, "need": 2.5}, "whole number"),
        ({"members": [f"n{n}" for n in range(40)], "within": 5, "need": 7}, "too many"),
        ({"members": ["a", "b"], "within": 5, "of": ""}, '"of"'),
        ({"members": ["a", "b"], "within": 5, "of": "x..y"}, '"of"'),
        ({"members": ["a", "b"], "within": 5, "where": "x >"}, "^"),
        ({"members": ["a", "b"], "within": 5, "where": "me.x > 1"}, "bare names"),
        ({"members": ["a", "b"], "within": 5, "where": "distance(me, event) > 1"}, "bare names"),
        ({"members": ["a", "b"], "inside": 5}, "members, within, beyond, need, of, where"),
    ],
)
def test_what_is_no_relationship_is_refused_with_what_would_be_right(
    broker: RunningBroker, wanted: dict[str, object], why: str
) -> None:
    talker = Talker(broker)
    topic = f"$relate/{fresh('wrong')}"
    assert talker.sends(topic, json.dumps(wanted).encode()) == BAD
    assert why in (talker.reason or "")
    talker.subscribes(topic)
    assert talker.gets() == []


@pytest.mark.parametrize("payload", [b"{", b"[1]", b"100", b"\xff"])
def test_what_is_no_json_object_is_refused_as_such(broker: RunningBroker, payload: bytes) -> None:
    assert Talker(broker).sends("$relate/x", payload) == BAD_JSON


def test_a_refused_definition_leaves_the_one_before(broker: RunningBroker) -> None:
    group = Group(broker)
    group.stand(0, 50)
    group.define(within=100)
    group.read()
    group.told()
    assert group.define(within="far") == BAD
    group.stand(0, 500)
    assert group.states() == ["apart"]


def test_it_is_one_however_it_is_spelt(broker: RunningBroker) -> None:
    group = Group(broker)
    group.stand(0, 50)
    group.topic += " a:b"
    spelt = group.topic.replace(" ", "%20").replace(":", "%3A")
    group.define(within=100)
    group.reader.subscribes(spelt)
    group.definer.sends(spelt)
    first, last = group.reader.gets()
    assert first.topic == last.topic == group.topic
    assert json.loads(last.payload)["ended"] is True


def test_all_relationships_can_be_read_by_one_filter(broker: RunningBroker) -> None:
    first, second = Group(broker), Group(broker)
    for group in (first, second):
        group.stand(0, 10)
        group.define(within=100)
    reader = Talker(broker)
    reader.subscribes("$relate/#")
    found = {message.topic for message in reader.gets()}
    assert {first.topic, second.topic} <= found
    plain = Talker(broker)
    plain.subscribes("#")
    first.stand(0, 1_000)
    assert [message.topic for message in reader.gets()] == [first.topic]
    assert plain.gets() == []
