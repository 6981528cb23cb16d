"""Nodes without a broker on a radio channel: what reaches whom, and what it costs."""

from random import Random

import pytest

from nearcast.core.model import circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.simulation.network.radio import RadioSettings
from nearcast.wire.beacons.group_key import GroupKey
from tests.support.radio_field import RadioField, at_m

SIREN = event_type("siren", {"lane": int})
QUIET = RadioSettings(contention=False)


def sent(field: RadioField) -> int:
    return sum(node.statistics().sent for node in field.nodes.values())


def connected_members(field: RadioField, source: str, reach_m: float) -> int:
    """Count the members that a message reaches over members, by a plain search."""
    places, inside = field.places, [source]
    inside += [
        name
        for name, place in field.places.items()
        if name != source and place.distance_m(places[source]) <= reach_m
    ]
    reached, frontier = {source}, [source]
    while frontier:
        here = places[frontier.pop()]
        found = [
            name
            for name in inside
            if name not in reached and places[name].distance_m(here) <= QUIET.range_m
        ]
        reached.update(found)
        frontier += found
    return len(reached) - 1


@pytest.mark.parametrize("reach_m", [100, 200, 300, 500, 700])
@pytest.mark.parametrize("nodes", [8, 60])
def test_the_cost_is_one_within_range_and_one_more_for_each_connected_member(
    reach_m: float, nodes: int
) -> None:
    field, random = RadioField(radio=QUIET), Random(nodes)
    source = field.add("source", 0)
    for number in range(nodes):
        node = field.add(f"n{number}", random.uniform(-700, 700), random.choice((-3, 3)))
        node.subscribe("siren")
    before = sent(field)
    source.announce(SIREN, circle("me", reach_m))
    field.clock.run(0.1)
    members = connected_members(field, "source", reach_m)
    expected = 1 if reach_m <= 200 else 1 + members
    assert sent(field) - before == expected
    before = sent(field)
    name = source.raise_event("siren", {"lane": 1})
    field.clock.run(0.1)
    assert sent(field) - before == expected
    receivers = [each for each in field.nodes if field.got(each) == [name]]
    assert len(receivers) == members


def test_a_filter_on_both_sides_selects_what_is_delivered() -> None:
    field = RadioField()
    light, near, wrong, away = (
        field.add("light", 0), field.add("near", -35), field.add("wrong", 0, 35),
        field.add("away", 30),
    )  # fmt: skip
    kind = event_type("traffic/light", {"approach": str, "green": bool})
    light.announce(kind, circle((at_m(0).lat, at_m(0).lon), 40))
    for node, approach in ((near, "west"), (wrong, "north"), (away, "west")):
        node.subscribe("traffic/light", f"approach = '{approach}' AND approaching(event)")
    field.clock.run(1.0)
    field.put("near", -25)
    field.put("away", 35)
    field.put("wrong", 0, 30)
    name = light.raise_event("traffic/light", {"approach": "west", "green": False})
    field.clock.run(1.0)
    assert field.got("near") == [name]
    assert field.got("wrong") == field.got("away") == []


def test_an_event_that_stays_true_reaches_whom_its_proximity_meets_later() -> None:
    field = RadioField(settings=ProximitySettings(beacon_most_s=1.0))
    car, driver = field.add("car", 0), field.add("driver", 150)
    car.announce(event_type("breakdown", {"lane": int}, validity=60), circle("me", 100))
    driver.subscribe("breakdown", "lane = 1 AND me.lane = 1")
    field.clock.run(1.0)
    field.put("driver", 80)
    field.clock.run(2.0)
    name = car.raise_event("breakdown", {"lane": 1})
    field.clock.run(1.0)
    # Its context comes later than the event: the filter is true of it only now.
    assert field.got("driver") == []
    driver._carry_out(driver.node.patch_context({"lane": 1}, field.clock.now()))
    assert field.got("driver") == [name]


def test_groups_with_another_key_are_not_heard() -> None:
    field = RadioField()
    ours, theirs = GroupKey(b"a" * 32), GroupKey(b"b" * 32)
    source = field.add("source", 0, keys=[ours])
    friend, stranger = (
        field.add("friend", 50, keys=[ours]),
        field.add("stranger", 60, keys=[theirs]),
    )
    for node in (friend, stranger):
        node.subscribe("#")
    source.announce(SIREN, circle("me", 100))
    field.clock.run(0.1)
    source.raise_event("siren", {"lane": 1})
    field.clock.run(0.1)
    assert len(field.got("friend")) == 1
    assert field.got("stranger") == []
    assert stranger.node.proximities.discovered == []


def test_a_large_event_travels_in_parts() -> None:
    field = RadioField(settings=ProximitySettings(type_share=1.0, node_share=1.0))
    source, other = field.add("source", 0), field.add("other", 100)
    source.announce(event_type("photo"), circle("me", 150))
    other.subscribe("photo")
    field.clock.run(0.1)
    name = source.raise_event("photo", {"pixels": "p" * 30_000})
    field.clock.run(1.0)
    assert field.got("other") == [name]


def test_a_node_that_comes_back_is_a_new_run_of_it() -> None:
    field = RadioField()
    source, other = field.add("source", 0), field.add("other", 100)
    other.subscribe("siren")
    for _ in range(2):
        source.announce(SIREN, circle("me", 150))
        field.clock.run(0.5)
        source.raise_event("siren", {"lane": 1})
        field.clock.run(0.5)
        source.crash()
        source = field.add("source", 0)
    assert len(field.got("other")) == 2
