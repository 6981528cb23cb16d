"""Who missed an event gets it from whoever has it."""

from random import Random

import pytest

from nearcast.core.model import circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.simulation.network.radio import RadioSettings
from tests.support.radio_field import RadioField

RECOVERS = ProximitySettings(recovers=True, type_share=1.0, node_share=1.0)
QUIET = RadioSettings(contention=False)
NEWS = event_type("news", {"value": int}, validity=60)
STEP_S = 0.1


def test_a_latecomer_gets_what_is_still_true_from_a_member_when_the_producer_has_gone() -> None:
    field = RadioField(settings=RECOVERS)
    source, member = field.add("source", 0), field.add("member", 100)
    member.subscribe("news")
    source.announce(NEWS, circle((53.35, -6.26), 500))
    field.clock.run(0.5)
    name = source.raise_event("news", {"value": 1})
    field.clock.run(0.5)
    source.crash()
    field.clock.run(30.0)
    late = field.add("late", 200)
    late.subscribe("news")
    field.clock.run(2 * RECOVERS.beacon_most_s)
    assert field.got("late") == [name]
    field.clock.run(60.0)
    later = field.add("later", 150)
    later.subscribe("news")
    field.clock.run(20.0)
    assert field.got("later") == []


def test_what_was_missed_in_a_partition_is_recovered_when_it_ends() -> None:
    field = RadioField(settings=RECOVERS)
    source, near, far = field.add("source", 0), field.add("near", 100), field.add("far", 150)
    for node in (near, far):
        node.subscribe("news")
    source.announce(NEWS, circle("me", 400))
    field.clock.run(1.0)
    field.put("far", 390)
    names = [source.raise_event("news", {"value": value}) for value in range(5)]
    field.clock.run(5.0)
    assert field.got("far") == []
    field.put("far", 250)
    field.clock.run(2 * RECOVERS.beacon_most_s)
    assert sorted(field.got("far")) == names == field.got("near")
    assert far.node.proximities.counts.asked >= 1


def test_a_member_that_is_about_to_leave_is_told_at_once() -> None:
    field = RadioField(settings=RECOVERS)
    source, car = field.add("source", 0), field.add("car", 100)
    source.subscribe("news")
    car.subscribe("news")
    for node in (source, car):
        node.announce(NEWS, circle((53.35, -6.26), 2_000))
        node.raise_event("news", {"value": 1})
    told_early = []
    for step in range(200):
        field.put("car", min(100 + step * 1.0, 400))
        before = [node.node.proximities.counts.told for node in (source, car)]
        field.clock.run(0.1)
        after = [node.node.proximities.counts.told for node in (source, car)]
        if after[0] > before[0] and after[1] > before[1]:
            told_early.append(step)
    assert car.node.proximities._recovery.anticipated == 1
    assert told_early
    assert 40 <= told_early[0] < 100


def test_nothing_that_nobody_subscribed_to_is_asked_for() -> None:
    field = RadioField(settings=RECOVERS)
    source, other = field.add("source", 0), field.add("other", 100)
    other.subscribe("else")
    source.announce(NEWS, circle("me", 150))
    source.raise_event("news", {"value": 1})
    field.clock.run(20.0)
    assert other.node.proximities.counts.asked == 0
    assert source.node.proximities.counts.told > 2


def test_what_is_held_is_bounded() -> None:
    settings = ProximitySettings(recovers=True, type_share=1.0, node_share=1.0, held_bytes=5_000)
    field = RadioField(settings=settings)
    source = field.add("source", 0)
    source.announce(NEWS, circle("me", 150))
    for value in range(100):
        source.raise_event("news", {"value": value})
        field.clock.run(0.1)
    assert len(source.node.proximities._recovery) <= 12


@pytest.mark.parametrize("seed", range(12))
def test_who_stays_in_range_of_a_holder_for_two_periods_gets_the_event(seed: int) -> None:
    """Without loss: compared with a plain account of who was in range of whom, and how long."""
    random = Random(seed)
    field = RadioField(seed, radio=QUIET, settings=RECOVERS)
    names = [f"n{number}" for number in range(6)]
    at = {name: random.uniform(-600.0, 600.0) for name in names}
    speed = {name: random.choice((0.0, 20.0, -20.0)) for name in names}
    for name in names:
        field.add(name, at[name]).subscribe("news")
    field.nodes["n0"].announce(NEWS, circle((53.35, -6.26), 5_000))
    field.clock.run(0.2)
    event = field.nodes["n0"].raise_event("news", {"value": 1})
    period_s = RECOVERS.beacon_most_s
    owed = {"n0"}
    since: dict[tuple[str, str], float] = {}
    for _ in range(int(50.0 / STEP_S)):
        field.clock.run(STEP_S)
        for name in names:
            at[name] += speed[name] * STEP_S
            if abs(at[name]) > 600.0:
                speed[name] = -speed[name]
            field.put(name, at[name])
        now = field.clock.now()
        holders = {"n0"} | {name for name in names if event in field.got(name)}
        for name in set(names) - {"n0"}:
            for holder in holders - {name}:
                # A little less than the range: they move between two steps.
                if abs(at[name] - at[holder]) <= 195.0:
                    begun = since.setdefault((name, holder), now)
                    if now - begun >= 2.0 * period_s:
                        owed.add(name)
                else:
                    since.pop((name, holder), None)
        assert owed - {"n0"} <= holders
    assert all(field.got(name).count(event) <= 1 for name in names)


def test_events_with_long_names_are_told_and_asked_for_in_messages_that_fit() -> None:
    field = RadioField(settings=RECOVERS)
    late_at = 5_000.0
    source, late = field.add("source", 0), field.add("late", late_at)
    late.subscribe("#")
    names = []
    for number in range(50):
        kind = event_type(f"{number}/{'x' * 900}", validity=100)
        source.announce(kind, circle("me", 150))
        names.append(source.raise_event(kind.subject, {}))
    field.clock.run(1.0)
    field.put("late", 100)
    field.clock.run(60.0)
    assert sorted(field.got("late")) == sorted(names)
