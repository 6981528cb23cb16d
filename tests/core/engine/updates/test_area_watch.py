"""Watched areas: baseline, coming in, going out, no flapping, areas that move, filters."""

from random import Random

from nearcast.core.engine.engine import Engine
from nearcast.core.engine.outcome import AreaNotice
from nearcast.core.language import parse
from nearcast.core.model import Area, Position, circle
from nearcast.core.model.inputs import (
    AreaUnwatched,
    AreaWatched,
    ContextPatched,
    Input,
    Moved,
    SightSet,
)

HERE = Position(53.35, -6.26)
DEGREE_M = 111_300.0


def north(metres: float) -> Position:
    return Position(HERE.lat + metres / DEGREE_M, HERE.lon)


def watch(area: Area, where: str | None = None) -> AreaWatched:
    return AreaWatched("park", "owner", area, None if where is None else parse(where))


def seen(engine: Engine, *inputs: Input) -> list[tuple[str, bool]]:
    outcome = engine.step(inputs, 1.0)
    assert outcome.refusals == []
    notices = [each for each in outcome.notices if isinstance(each, AreaNotice)]
    return [(each.node, each.inside) for each in notices]


PARK = circle(HERE, 100.0)


def test_the_first_sighting_is_the_baseline() -> None:
    engine = Engine()
    assert seen(engine, Moved("early", HERE), watch(PARK), Moved("late", HERE)) == []
    assert seen(engine, Moved("early", north(200)), Moved("late", north(200))) == [
        ("early", False),
        ("late", False),
    ]


def test_who_comes_in_and_goes_out_is_told_once_each() -> None:
    engine = Engine()
    seen(engine, watch(PARK), Moved("ann", north(500)))
    assert seen(engine, Moved("ann", north(50)), Moved("ann", HERE)) == [("ann", True)]
    assert seen(engine, Moved("ann", north(300)), Moved("ann", north(400))) == [("ann", False)]


def test_nobody_flaps_at_the_edge() -> None:
    engine = Engine()
    seen(engine, watch(PARK), Moved("ann", north(500)))
    told = []
    for metres in (99, 101, 98, 104, 99, 105, 97):
        told += seen(engine, Moved("ann", north(metres)))
    assert told == [("ann", True)]
    assert seen(engine, Moved("ann", north(120))) == [("ann", False)]


def test_an_area_that_moves_comes_over_people() -> None:
    engine = Engine()
    seen(engine, Moved("owner", north(1000)), watch(circle("me", 100)), Moved("ann", HERE))
    assert ("ann", True) in seen(engine, Moved("owner", north(50)))
    assert ("ann", False) in seen(engine, Moved("owner", north(900)))


def test_only_nodes_that_the_filter_means_count() -> None:
    engine = Engine()
    seen(engine, watch(PARK, "kind = 'bus'"), ContextPatched("b", {"kind": "bus"}))
    seen(engine, Moved("a", north(500)), Moved("b", north(500)))
    assert seen(engine, Moved("a", HERE), Moved("b", HERE)) == [("b", True)]


def test_what_the_owner_may_not_see_does_not_decide() -> None:
    engine = Engine()
    seen(engine, watch(PARK, "kind = 'bus'"), ContextPatched("b", {"kind": "bus"}))
    seen(engine, SightSet("owner", "b", 1), Moved("b", north(500)))
    assert seen(engine, Moved("b", HERE)) == []


def test_an_area_that_is_no_longer_watched_tells_nothing() -> None:
    engine = Engine()
    seen(engine, watch(PARK), Moved("ann", north(500)), AreaUnwatched("park"))
    assert seen(engine, Moved("ann", HERE)) == []


def test_who_was_lost_is_seen_as_at_first() -> None:
    engine = Engine()
    seen(engine, watch(PARK), Moved("ann", north(500)), Moved("ann", HERE))
    assert seen(engine, Moved("ann", None), Moved("ann", north(20))) == []


def test_an_area_that_moves_is_compared_with_the_nodes_near_it() -> None:
    engine = Engine()
    crowd = [Moved(f"n{i}", Position(-40.0 + i / 100, 100.0)) for i in range(2_000)]
    seen(engine, *crowd, Moved("bus", HERE), Moved("ann", north(20)), watch(circle("bus", 100.0)))
    watched = engine._state.areas
    before = watched.looked_at
    assert seen(engine, Moved("bus", north(500))) == [("ann", False)]
    assert seen(engine, Moved("bus", north(30))) == [("ann", True)]
    assert watched.looked_at - before <= 8


def test_nodes_near_an_area_that_moves_are_told_as_if_all_were_compared() -> None:
    """Random moves, against the distance of every node from the bus."""
    draw, engine = Random(1), Engine()
    places = dict.fromkeys(("ann", "bob", "cy", "bus"), HERE)
    seen(engine, *(Moved(*each) for each in places.items()), watch(circle("bus", 100.0)))
    inside = set(places)
    for _ in range(400):
        name = draw.choice(list(places))
        places[name] = north(draw.choice((0.0, 50.0, 105.0, 150.0, 5_000.0)))
        told = seen(engine, Moved(name, places[name]))
        bus = places["bus"]
        far = {each: bus.distance_m(at) for each, at in places.items()}
        after = {each for each in places if far[each] <= (110.0 if each in inside else 100.0)}
        assert sorted(told) == sorted(
            [(each, True) for each in after - inside] + [(each, False) for each in inside - after]
        )
        inside = after
