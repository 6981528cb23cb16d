"""Whoever watches the regions, all hosts give the same answers for relationships.

Members that run the SDK's protocol, phones for which the broker runs it, and full reporting tell
the same changes in the same order; what a player decides on the log is, event for event and to the
microsecond, what the broker told.
"""

import json
from collections.abc import Mapping
from random import Random

import pytest

from nearcast.broker.situation.metadata import time_text
from nearcast.core.engine.outcome import RelationshipNotice
from nearcast.pipeline.decide.player import Player
from nearcast.store import Gap, Row, rows_of
from nearcast.testing import DiskQuality, World
from tests.support.following import LASTING, FollowingNode, Phone, Walk

NODES = ("a", "b", "c")
RELATIONSHIPS: Mapping[str, Mapping[str, object]] = {
    "pair": {"members": ["a", "b"], "within": 150},
    "apart": {"members": ["b", "c"], "beyond": 200},
    "any": {"members": ["a", "b", "c"], "within": 100, "need": "any"},
    "all": {"members": ["a", "b", "c"], "within": 250},
    "own": {"members": {"a": 100, "c": 200}},
    "filtered": {"members": ["a", "c"], "within": 150, "where": "on_duty IS NULL"},
}
ROUNDS, FIX_EVERY_S = 120, 5.0
Told = tuple[str, str, str, str]
"""A relationship, by whose metres, its state and the time."""


def told_of(rows: list[Row]) -> list[Told]:
    """Return what a player tells of relationships."""
    found: list[Told] = []
    for played in Player("broker").decide(rows):
        for each in played.notices:
            if isinstance(each, RelationshipNotice):
                state = "near" if each.near else "apart"
                found.append((each.relationship, each.by, state, time_text(each.time)))
    return found


def log_of(world: World) -> list[Row]:
    world.settle()
    rows: list[Row] = []
    for part in world.brokers["broker"].disk.store.log.read():
        assert not isinstance(part, Gap)
        rows += rows_of(part)
    return rows


def live(seed: int, following: str) -> tuple[list[Told], list[Told]]:
    """Return what a reader and a player were told of a walk."""
    with World(seed=seed) as world:
        world.broker(disk=DiskQuality())
        reader = world.client("reader", LASTING)
        subscribed = reader.subscribe("$relate/#", qos=1)
        world.run_until(lambda: subscribed.done)
        definer = world.client("definer", LASTING)
        for name, members in RELATIONSHIPS.items():
            definer.publish(f"$relate/{name}", json.dumps(members).encode(), qos=1)
        world.settle()
        nodes: list[FollowingNode | Phone] = [
            FollowingNode(world, name, None) if name in following else Phone(world, name)
            for name in NODES
        ]
        world.run(1.0)
        chance = Random(seed)
        walks = [Walk(chance, 600.0, 4.0 * speed) for speed in range(1, 4)]
        for _ in range(ROUNDS):
            for node, walk in zip(nodes, walks, strict=True):
                node.fix(walk.step(FIX_EVERY_S))
                world.run(FIX_EVERY_S)
        played = told_of(log_of(world))
        found: list[Told] = []
        for message in reader.messages:
            content = json.loads(message.payload)
            name = message.topic.removeprefix("$relate/")
            found.append((name, content.get("by", ""), content["state"], content["time"]))
        return found, played


def changes(told: list[Told]) -> list[tuple[str, str, str]]:
    """Return the changes without their times."""
    return [each[:3] for each in told]


@pytest.mark.parametrize("seed", range(3))
def test_members_at_their_nodes_at_the_broker_and_in_the_pipeline_tell_the_same(seed: int) -> None:
    reporting, played = live(seed, following="")
    assert played == reporting
    assert len(reporting) > len(RELATIONSHIPS) + 12
    for following in ("a", "bc", "abc"):
        found, played = live(seed, following)
        assert played == found
        assert sorted(changes(found)) == sorted(changes(reporting))
        for name in RELATIONSHIPS:
            for by in {each[1] for each in reporting if each[0] == name}:
                of = [each[2] for each in found if each[:2] == (name, by)]
                assert of == [each[2] for each in reporting if each[:2] == (name, by)], name
