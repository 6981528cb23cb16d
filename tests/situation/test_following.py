"""Who is told regions, and what the broker says to wrong reports."""

import json
from pathlib import Path
from typing import Any

import pytest

from nearcast.broker.config.settings import Settings, SituationSection
from nearcast.wire.mqtt import ReasonCode
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import Talker, at
from tests.support.ruled_broker import broker_with
from tests.support.running_broker import ClockedServer, RunningBroker

BAD, BAD_JSON = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, ReasonCode.PAYLOAD_FORMAT_INVALID
HIDDEN = """
[[sight]]
viewer = "node:attacker"
other = "node:hidden"
see = []
"""


def orders(talker: Talker) -> list[dict[str, Any]]:
    return [json.loads(each.payload) for each in talker.gets() if each.topic == "$me/follow"]


def report(talker: Talker, **members: object) -> ReasonCode:
    return talker.sends("$me/follow/report", json.dumps(members).encode())


def relate(talker: Talker, name: str, *members: str, **more: object) -> None:
    wanted = {"members": members, "within": 100, **more}
    assert not talker.sends(f"$relate/{name}", json.dumps(wanted).encode()).failed


def test_who_follows_is_told_the_pairs_whose_members_see_each_other(broker: RunningBroker) -> None:
    one, other = Talker(broker), Talker(broker)
    one.moves(*at(0))
    other.moves(*at(500))
    relate(one, fresh("pair"), one.node, other.node)
    assert one.subscribes("$me/follow")[0] < 0x80
    (first,) = orders(one)
    assert first.keys() == {"run", "time", "pairs", "messages"}
    assert [(each["peer"], each["within_m"]) for each in first["pairs"]] == [(other.node, 100)]
    # A report of another run has a position, and nothing else.
    assert report(one, run=1, position=[at(10)[1], at(10)[0]]) == ReasonCode.SUCCESS
    assert orders(one) == []


def test_relationships_of_no_pairs_need_every_fix(broker: RunningBroker) -> None:
    one, other = Talker(broker), Talker(broker)
    for each in (one, other):
        each.moves(*at(0))
    name = fresh("filtered")
    relate(one, name, one.node, other.node, where="on_duty = TRUE")
    one.subscribes("$me/follow")
    (first,) = orders(one)
    assert (first["all"], first["pairs"]) == (True, [])
    one.sends(f"$relate/{name}")
    (second,) = orders(one)
    assert "all" not in second


def test_wrong_reports_are_refused_and_change_nothing(broker: RunningBroker) -> None:
    one = Talker(broker)
    one.subscribes("$me/follow")
    one.moves(*at(0))
    assert one.sends("$me/follow/report", b"{") == BAD_JSON
    assert report(one) == BAD_JSON
    assert report(one, run=1, more=1) == BAD_JSON
    assert report(one, run=1, position=[500.0, 1.0]) == BAD
    crossing = {"type": "crossing", "sender": "other"}
    assert report(one, run=1, messages=[[1, crossing]]) == BAD_JSON
    assert len(orders(one)) == 1


@pytest.mark.parametrize("stands_at", [50, 5_000])
def test_a_member_that_is_hidden_is_nowhere_in_what_others_are_told(
    stands_at: int, tmp_path: Path
) -> None:
    house = broker_with(tmp_path, HIDDEN)
    try:
        hidden, attacker = Talker(house, "hidden"), Talker(house, "attacker")
        hidden.moves(*at(stands_at))
        attacker.moves(*at(0))
        hidden.subscribes("$me/follow")
        # Whoever defines it: the attacker, who sees nothing, and the hidden node, which sees both.
        relate(attacker, "mine", "attacker", "hidden")
        relate(hidden, "ours", "attacker", "hidden")
        attacker.subscribes("$me/follow")
        (told,) = orders(attacker)
        assert told.pop("run")
        assert told.pop("time")
        # That everything is to be reported says that there is a member to be near to, not where.
        assert told == {"all": True, "pairs": []}
        attacker.moves(*at(10))
        hidden.moves(*at(stands_at + 10))
        assert orders(attacker) == []
    finally:
        house.stop()


def test_the_position_of_who_follows_does_not_age_while_it_is_connected() -> None:
    house = RunningBroker(Settings(situation=SituationSection(position_ttl_s=100.0)))
    try:
        one, reader = Talker(house), Talker(house)
        one.subscribes("$me/follow")
        (first,) = orders(one)
        assert not report(one, run=first["run"], position=[at(0)[1], at(0)[0]]).failed
        house.server.ahead_s = 1_000.0
        assert reader.subscribes(f"$node/{one.node}/position")[0] < 0x80
        assert [each.payload for each in reader.gets()] != [b""]
        assert not report(one, run=first["run"], end=True).failed
        # It was there until now.
        assert [each.payload for each in reader.gets()] != [b""]
        house.server.ahead_s = 1_050.0
        one.sends("$me/context", b"{}")
        assert reader.gets() == []
        house.server.ahead_s = 1_200.0
        one.sends("$me/context", b"{}")
        assert [each.payload for each in reader.gets()] == [b""]
    finally:
        house.stop()


def test_a_restart_of_the_broker_does_not_make_the_position_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def house() -> RunningBroker:
        return RunningBroker(Settings(situation=SituationSection(position_ttl_s=100.0)), tmp_path)

    first = house()
    one, other = Talker(first, "one"), Talker(first, "other")
    one.subscribes("$me/follow")
    (told,) = orders(one)
    assert not report(one, run=told["run"], position=[at(0)[1], at(0)[0]]).failed
    other.moves(*at(0))
    first.server.ahead_s = 1_000.0
    one.sends("$me/context", b"{}")
    first.stop()
    # Its clock goes on from where it was.
    monkeypatch.setattr(ClockedServer, "ahead_s", 10.0)
    second = house()
    try:
        reader = Talker(second)
        assert reader.subscribes("$node/+/position")[0] < 0x80
        assert [each.topic for each in reader.gets()] == ["$node/one/position"]
    finally:
        second.stop()
