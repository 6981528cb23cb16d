import random

import pytest

from nearcast.core.model import Box, Circle, ModelError, PlaceError, Position, polygon
from nearcast.core.model.geometry.area_resolution import holds
from nearcast.core.model.geometry.places import Places, area_m2, inner_point


@pytest.fixture
def places() -> Places:
    registry = Places()
    registry.add("country", "Ireland", Box(51.4, -10.5, 55.4, -5.9))
    registry.add("country", "United States", Box(25, -125, 49, -67))
    registry.add("state", "Ohio", Box(38.4, -84.8, 42, -80.5), "United States")
    registry.add("city", "Dublin", Box(53.2, -6.5, 53.5, -6.0), "Ireland")
    registry.add("city", "Dublin", Box(40.0, -83.2, 40.2, -83.0), "Ohio")
    registry.add("pub", "Dublin", Circle(Position(48.85, 2.35), 20))
    registry.add("neighbourhood", "Temple Bar", Circle(Position(53.3455, -6.2645), 200))
    return registry


def test_a_name_that_only_one_place_has_is_enough(places: Places) -> None:
    assert places.find("Temple Bar").kind == "neighbourhood"
    assert places.find("Dublin", "pub").name == "Dublin"


def test_an_unknown_name_hints_at_close_ones(places: Places) -> None:
    with pytest.raises(PlaceError, match="did you mean Temple Bar"):
        places.find("Tempel Bar")
    with pytest.raises(PlaceError, match="no city is called 'Ireland', but there is a country"):
        places.find("Ireland", "city")


def test_an_ambiguous_name_lists_what_to_choose_from(places: Places) -> None:
    with pytest.raises(PlaceError, match="city/Dublin, Ireland or city/Dublin, Ohio"):
        places.find("Dublin", "city")


def test_a_place_above_tells_two_of_a_name_apart(places: Places) -> None:
    assert places.find("Dublin, Ohio", "city").parent == "Ohio"
    assert places.find("Dublin, Ireland").parent == "Ireland"
    assert places.find("Dublin, United States").parent == "Ohio"


def test_the_smallest_place_of_a_kind_holds_me(places: Places) -> None:
    me = Position(53.3455, -6.2645)
    assert [place.name for place in places.containing(me)] == ["Temple Bar", "Dublin", "Ireland"]
    here = places.here("city", me)
    assert here is not None
    assert here.parent == "Ireland"
    assert places.here("pub", me) is None


def test_equal_sizes_are_ordered_by_name() -> None:
    places = Places()
    for name in ("b", "a", "c"):
        places.add("zone", name, Box(0, 0, 1, 1))
    here = places.here("zone", Position(0.5, 0.5))
    assert here is not None
    assert here.name == "a"


def test_places_above_are_found_by_name_and_by_containment(places: Places) -> None:
    bar = places.find("Temple Bar")
    assert [place.name for place in places.ancestors(bar)] == ["Dublin", "Ireland"]
    ohio = places.find("Dublin, Ohio")
    assert [place.name for place in places.ancestors(ohio)] == ["Ohio", "United States"]


def test_parents_in_a_circle_end() -> None:
    places = Places()
    a = places.add("zone", "a", Box(0, 0, 1, 1), "b")
    places.add("zone", "b", Box(5, 5, 6, 6), "a")
    assert [place.name for place in places.ancestors(a)] == ["b"]


def test_every_change_has_a_version_of_its_own(places: Places) -> None:
    versions = [places.version]
    places.add("city", "Cork", Box(51.8, -8.6, 52.0, -8.3))
    versions.append(places.version)
    assert places.remove("city", "Cork")
    versions.append(places.version)
    assert not places.remove("city", "Cork")
    assert versions == sorted(set(versions))
    assert places.version == versions[-1]


def test_a_place_can_be_redefined_and_removed(places: Places) -> None:
    count = len(places)
    places.add("pub", "Dublin", Circle(Position(0, 0), 20))
    assert len(places) == count
    assert places.here("pub", Position(48.85, 2.35)) is None
    assert places.here("pub", Position(0, 0)) is not None
    with pytest.raises(PlaceError, match="2 places"):
        places.remove("city", "Dublin")
    assert places.remove("city", "Dublin", "Ohio")
    assert places.find("Dublin", "city").parent == "Ireland"
    assert places.statistics()["city"] == 1
    assert len(list(places)) == count - 1


@pytest.mark.parametrize(
    ("kind", "name"), [("", "x"), ("city", ""), ("city", "here"), ("city", "x" * 300)]
)
def test_names_that_cannot_be_used_are_refused(places: Places, kind: str, name: str) -> None:
    with pytest.raises(ModelError, match="place's"):
        places.add(kind, name, Box(0, 0, 1, 1))
    with pytest.raises(ModelError, match="not Position"):
        places.add("city", "x", Position(0, 0))  # type: ignore[arg-type]


def test_thousands_of_places_answer_as_a_plain_search_does() -> None:
    rng = random.Random(7)
    places = Places()
    for i in range(2_000):
        center = Position(rng.uniform(-89, 89), rng.uniform(-180, 180))
        places.add("spot", f"{i}", Circle(center, rng.uniform(0, 2e6)))
    for i in range(0, 2_000, 3):
        places.remove("spot", f"{i}")
    for _ in range(20):
        me = Position(rng.uniform(-90, 90), rng.uniform(-180, 180))
        plain = sorted(
            (place for place in places if holds(place.geometry, me)),
            key=lambda place: (place.area_m2, place.name),
        )
        assert list(places.containing(me)) == plain


def test_areas_in_square_metres_tell_sizes_apart() -> None:
    square = polygon([(0, 0), (1, 0), (1, 1), (0, 1)])
    assert area_m2(square) == pytest.approx(area_m2(Box(0, 0, 1, 1)), rel=1e-6)
    assert area_m2(square) == pytest.approx(1.2308e10, rel=0.01)
    holed = polygon([(0, 0), (1, 0), (1, 1), (0, 1)], [(0.4, 0.4), (0.6, 0.4), (0.5, 0.6)])
    assert area_m2(holed) < area_m2(square)
    cap = [(lon, 80.0) for lon in range(-180, 180, 10)]
    for ring in (cap, cap[::-1]):
        assert area_m2(polygon(ring)) == pytest.approx(area_m2(Box(80, -180, 90, 180)), rel=1e-6)
        south = polygon([(lon, -lat) for lon, lat in ring])
        assert area_m2(south) == pytest.approx(area_m2(polygon(ring)), rel=1e-6)
    assert area_m2(Circle(Position(0, 0), 1000)) == pytest.approx(3.14159e6, rel=1e-4)


def test_an_inner_point_is_inside_across_the_antimeridian_too() -> None:
    shapes = (
        polygon([(170, 0), (-170, 0), (-170, 10), (170, 10)]),
        polygon([(0, 0), (9, 0), (9, 9), (8, 9), (8, 1), (0, 1)]),
        Box(-5, 175, 5, -160),
    )
    for shape in shapes:
        assert holds(shape, inner_point(shape))


def test_a_name_that_several_have_means_the_first_and_goes_on_meaning_it() -> None:
    places = Places()
    shape = Box(0, 0, 1, 1)
    for kind in ("town", "city", "airport"):
        places.add(kind, "Cork", shape)
    assert places.find_first("Cork").kind == "town"
    places.add("town", "Cork", Box(0, 0, 2, 2))
    assert places.find_first("Cork").geometry == Box(0, 0, 2, 2)
    places.remove("town", "Cork")
    assert places.find_first("Cork").kind == "city"
    places.add("town", "Cork", shape)
    assert places.find_first("Cork").kind == "city"
    with pytest.raises(PlaceError, match="no place is called 'Kork'"):
        places.find_first("Kork")


def test_a_place_with_an_order_comes_where_that_says() -> None:
    places = Places()
    places.add("town", "Cork", Box(0, 0, 1, 1), order=7)
    places.add("city", "Cork", Box(0, 0, 1, 1), order=3)
    places.add("airport", "Cork", Box(0, 0, 1, 1))
    assert [places.find_first("Cork").kind, places.find("Cork", "airport").order] == ["city", 8]
