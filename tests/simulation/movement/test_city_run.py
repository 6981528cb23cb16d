"""City life through the engine: what the demo tells is what the engine decided."""

from functools import cache

from nearcast.core.model.geometry.area import Around, Circle, PlaceArea
from nearcast.core.model.geometry.area_resolution import holds
from nearcast.core.model.inputs import Moved, Published
from nearcast.simulation.movement.city_life import FEWEST_NODES, CityLife
from nearcast.simulation.movement.city_run import CityRun, Happening

SECONDS = 300


@cache
def lived(
    nodes: int = 60, seed: int = 1, seconds: int = SECONDS
) -> tuple[CityRun, list[Happening]]:
    run = CityRun(CityLife(nodes, seed))
    happenings: list[Happening] = []
    for _ in range(seconds):
        run.step(run.prepare())
        happenings += (each for each in run.happenings if each.time_s == run.time_s)
    return run, happenings


def about(subject: str) -> list[Happening]:
    return [each for each in lived()[1] if each.event.subject.startswith(subject)]


def test_the_same_seed_lives_the_same_life() -> None:
    run, happenings = lived(seconds=60)
    assert lived()[1][: len(happenings)] == happenings
    assert run.statistics() == lived.__wrapped__(seconds=60)[0].statistics()
    assert lived(seed=2, seconds=60)[1] != happenings


def test_cars_hear_the_ambulance_only_within_its_announced_area() -> None:
    run, _ = lived()
    heard = about("emergency/")
    assert heard
    assert {run.life.residents[copy.node].kind for each in heard for copy in each.copies} == {"car"}
    for each in heard:
        assert isinstance(each.event.to, Around)
        siren = run.life.residents["ambulance"].tour.at(each.time_s)
        for copy in each.copies:
            # A car may have moved since it last said where it is.
            car = run.life.residents[copy.node].tour.at(each.time_s)
            assert car.distance_m(siren) < 500.0 + 2 * 12.0


def test_its_area_overtakes_cars_while_the_call_lasts() -> None:
    assert any(each.later for each in about("emergency/"))


def test_late_buses_reach_those_who_wait_for_that_line_and_very_late_ones_first() -> None:
    buses = about("bus/")
    assert buses
    for each in buses:
        delay = each.event.attributes["delay"]
        assert isinstance(delay, float)
        assert delay > 2.0
        assert {copy.priority for copy in each.copies} == {1 if delay > 5.0 else 2}


def test_an_offer_stays_in_its_quarter() -> None:
    run, _ = lived()
    offers = about("offer/")
    assert offers
    grounds = {each.name: run.life.city.ground(each) for each in run.life.city.places}
    for each in offers:
        assert isinstance(each.event.to, PlaceArea)
        said = run.engine.nodes
        assert said.keys() >= {copy.node for copy in each.copies}
        for copy in each.copies:
            # Where a person last said to be: at most four seconds and eight metres ago.
            tour = run.life.residents[copy.node].tour
            assert any(
                holds(grounds[each.event.to.name], tour.at(each.time_s - ago)) for ago in range(4)
            )


def test_friends_hear_from_those_who_list_them() -> None:
    run, _ = lived()
    hellos = about("friend/")
    assert hellos
    for each in hellos:
        friends = run.engine.nodes[each.event.publisher].attributes["friends"]
        assert isinstance(friends, list)
        assert {copy.node for copy in each.copies} <= set(friends)


def test_a_hazard_is_met_by_newcomers_once_and_while_it_lasts() -> None:
    hazards = about("hazard/")
    assert any(each.later for each in hazards)
    pairs = [(each.event.id, copy.node) for each in hazards for copy in each.copies]
    assert len(pairs) == len(set(pairs))
    for each in hazards:
        assert isinstance(each.event.to, Circle)
        assert each.event.valid_s is not None
        assert each.time_s < each.event.time + each.event.valid_s


def test_counts_add_up() -> None:
    run, happenings = lived()
    counts = run.statistics()
    assert counts["seconds"] == SECONDS
    assert counts["nodes"] == len(run.life.residents) == 60
    assert counts["deliveries"] == sum(len(each.copies) for each in happenings)
    assert counts["deliveries"] == counts["priority_1"] + counts["priority_2"]
    assert 0 < counts["met_later"] < counts["deliveries"]
    assert counts["live_events"] == len(run.engine.matcher.live)


def test_somebody_is_told_why_not() -> None:
    run, _ = lived()
    assert run.missed is not None
    assert run.missed.why


def test_the_smallest_city_lives_too() -> None:
    run, _ = lived(FEWEST_NODES, seconds=60)
    assert run.statistics()["nodes"] == FEWEST_NODES


def test_everyone_says_where_they_are_before_anyone_speaks() -> None:
    inputs = list(CityLife().second(60))
    kinds = [type(each) for each in inputs]
    assert kinds == sorted(kinds, key=(Moved, Published).index)
