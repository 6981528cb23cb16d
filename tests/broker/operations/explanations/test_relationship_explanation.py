"""Why a relationship is near or apart: the log is played again, and says whose report it was."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nearcast.broker.config.settings import Settings
from nearcast.broker.operations.explanations.relationship_explanation import explain_relationship
from nearcast.cli import app
from nearcast.core.model import Position
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.store import StoreError
from nearcast.testing import DiskQuality, World
from tests.support.clients.talker import Talker, at
from tests.support.following import LASTING, FollowingNode, Phone
from tests.support.running_broker import RunningBroker

METRE = 1.0 / 111_200.0


def asked(data: Path, *options: str) -> Result:
    command = ["explain", "--relationship", "walk", *options, "--data", str(data)]
    return CliRunner().invoke(app, command)


def test_each_change_names_the_report_that_made_it_and_the_margin(tmp_path: Path) -> None:
    running = RunningBroker(data=tmp_path)
    ttl_s = Settings().situation.position_ttl_s
    try:
        ann, ben, eve = (Talker(running, name) for name in ("ann", "ben", "eve"))
        ann.moves(*at(0))
        ben.moves(*at(500))
        wanted = {"members": {"ann": 100, "ben": 400}}
        assert not eve.sends("$relate/walk", json.dumps(wanted).encode()).failed
        ben.moves(*at(300))
        ann.moves(*at(210))
        running.later(ttl_s - 100)
        ann.moves(*at(210))
        running.later(200)
        ann.moves(*at(210))
    finally:
        running.stop()

    log = next(tmp_path.glob("brokers/*/log"))
    found = explain_relationship(log, "walk")
    assert [(each.state, each.by, each.node) for each in found.changes] == [
        ("apart", "ann", "eve"),
        ("apart", "ben", "eve"),
        ("near", "ben", "ben"),
        ("near", "ann", "ann"),
        ("apart", "ann", None),
        ("apart", "ben", None),
    ]
    assert [each.why for each in found.changes[-2:]] == ["the last report of a member grew old"] * 2
    distances = [each.distance for each in found.changes[:4]]
    assert distances == pytest.approx([500, 500, 300, 90], rel=0.01)
    margins = [each.margin for each in found.changes[:4]]
    assert margins == pytest.approx([400, 100, 100, 10], rel=0.03)
    assert [(each.node, each.why) for each in found.members] == [
        ("ann", ""), ("ben", "it has not said where it is, or too long ago"),
    ]  # fmt: skip

    told = asked(tmp_path).stdout
    assert "walk, defined by eve: ann within 100 m, ben within 400 m." in told
    assert "ben does not count: it has not said where it is, or too long ago" in told
    assert "near by ben" in told
    value = json.loads(asked(tmp_path, "--json").stdout)
    assert [each["state"] for each in value["states"]] == ["apart", "apart"]
    assert len(value["changes"]) == 6
    few = json.loads(asked(tmp_path, "--most", "2", "--json").stdout)
    assert few["changes"] == value["changes"][-2:]


def test_one_that_has_ended_is_explained_and_an_unknown_one_is_an_error(tmp_path: Path) -> None:
    running = RunningBroker(data=tmp_path)
    try:
        eve = Talker(running, "eve")
        eve.sends("$relate/walk", b'{"members": ["ann", "ben"], "within": 10, "of": "level"}')
        for name, level in (("ann", 1), ("ben", 5), ("ben", 2), ("ben", 50)):
            Talker(running, name).is_now(level=level)
        eve.sends("$relate/walk")
    finally:
        running.stop()

    log = next(tmp_path.glob("brokers/*/log"))
    found = explain_relationship(log, "walk")
    assert found.defined is None
    assert [(each.state, each.ended, each.node) for each in found.changes] == [
        ("apart", False, "eve"), ("near", False, "ben"), ("apart", False, "ben"),
        ("apart", True, None),
    ]  # fmt: skip
    assert "walk has ended." in asked(tmp_path).stdout
    with pytest.raises(StoreError, match="no relationship 'walks'"):
        explain_relationship(log, "walks")
    with pytest.raises(StoreError, match="there is no log"):
        explain_relationship(tmp_path / "elsewhere", "walk")
    assert asked(tmp_path, "an-event").exit_code == 2


def test_of_silent_members_it_tells_the_regions_and_whose_report_led_to_them() -> None:
    with World(seed=3) as world:
        broker = world.broker(disk=DiskQuality())
        definer = world.client("definer", LASTING)
        definer.publish("$relate/pair", b'{"members": ["ann", "ben"], "within": 100}', qos=1)
        world.settle()
        ann, ben = FollowingNode(world, "ann", None), Phone(world, "ben")
        world.run(1.0)
        ben.fix(Position(53.0, 0.0))
        places = [Position(53.0 + metres * METRE, 0.0) for metres in range(1000, 0, -20)]
        for place in places:
            ann.fix(place)
            world.run(2.0)
        world.settle()
        log = Path(str(broker.disk.store.directory)) / "log"
        found = explain_relationship(log, "pair")

        assert found.silent
        assert [each.state for each in found.states] == ["near"]
        assert found.changes[-1].state == "near"
        assert found.changes[-1].node == "ann"
        assert "left a region" in found.changes[-1].why
        assert {each.node for each in found.changes[-1].regions} == {"ann", "ben"}
        for member in found.members:
            (region,) = member.regions
            assert region.peer != member.node
            assert region.margin_m >= 0.0
            assert region.region.startswith("circle:")
            lat, lon, metres = map(float, region.region.removeprefix("circle:").split(","))
            assert metres == pytest.approx(50.0, abs=0.1)
            assert member.position is not None
            here = (member.position.lat, member.position.lon)
            inside = metres - distance_m(lat, lon, *here)
            assert inside == pytest.approx(region.margin_m, abs=0.2)
