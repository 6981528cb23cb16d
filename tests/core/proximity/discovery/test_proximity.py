import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.model import Circle, ModelError, box, circle, moving_box, place, polygon
from nearcast.core.model.geometry.area import Around
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.discovery.group_id import group_id, hashed
from nearcast.core.proximity.discovery.proximity import proximity, read_proximity
from tests.support.radio_field import CENTRE, at_m

offsets = st.floats(-2_000, 2_000)


@given(offsets, offsets, offsets, offsets, st.floats(1, 5))
def test_a_moving_area_holds_what_its_shape_holds_where_the_naval_is(
    x: float, y: float, naval_x: float, naval_y: float, scale: float
) -> None:
    shape = moving_box(600, 200, (50, 20))
    found = proximity(Around("me", shape), CENTRE)
    larger = moving_box(600 * scale, 200 * scale, (50 * scale, 20 * scale))
    at, naval = at_m(x, y), at_m(naval_x, naval_y)
    expected = holds(Anchored(naval, larger), at)
    if found.holds(at, naval, scale) != expected:
        # Rounding of corners: only at an edge.
        east, north = (x - naval_x) / scale - 50, (y - naval_y) / scale - 20
        assert min(abs(abs(east) - 300), abs(abs(north) - 100)) < 2.0


@pytest.mark.parametrize(
    "area",
    [
        circle((53.35, -6.26), 40),
        circle("me", 500),
        circle("me", 500, offset=(0, 250)),
        box(53.3, -6.3, 53.4, -6.2),
        polygon([(-6.3, 53.3), (-6.2, 53.3), (-6.2, 53.4)]),
        Around("me", moving_box(100, 50)),
    ],
)
def test_every_node_reads_the_same_proximity_and_computes_the_same_group(
    area: Circle | Around,
) -> None:
    announced = proximity(area, CENTRE)
    read = read_proximity(announced.area_text, announced.initial, 0.0)
    assert read == announced
    light = event_type("traffic/light", {"green": bool})
    assert group_id(light, read) == group_id(light, announced)
    assert group_id(event_type("traffic/lights"), read) != group_id(light, announced)


def test_a_circle_reaches_exactly_its_radius_from_its_centre() -> None:
    assert proximity(circle("me", 200), CENTRE).reach_m(at_m(500)) == 200
    assert proximity(circle((CENTRE.lat, CENTRE.lon), 200), CENTRE).reach_m(CENTRE) == 200
    farther = proximity(circle((CENTRE.lat, CENTRE.lon), 200), CENTRE).reach_m(at_m(100))
    assert math.isclose(farther, 300, rel_tol=5e-3)


def test_a_proximity_grows_by_what_its_producer_travels() -> None:
    found = proximity(circle("me", 100), CENTRE, grow_s=5)
    assert found.scale(0) == 1
    assert found.reach_m(CENTRE, found.scale(20)) == 200


@pytest.mark.parametrize(
    ("area", "grow_s", "reason"),
    [
        (place("zoo"), 0.0, "not a named place"),
        (circle("truck", 10), 0.0, "with its producer"),
        (circle((0, 0), 10), 3.0, "only a proximity that moves"),
        (circle("me", 10), -1.0, "grow_s"),
        (polygon([(i / 100, (i * i) / 1e4) for i in range(70)]), 0.0, "at most 64 points"),
    ],
)
def test_what_cannot_be_a_proximity_is_refused(
    area: Circle | Around, grow_s: float, reason: str
) -> None:
    with pytest.raises(ModelError, match=reason):
        proximity(area, CENTRE, grow_s)


def test_groups_have_24_bits_and_spread_evenly() -> None:
    groups = [hashed(f"subject-{number};stationary;circle") for number in range(20_000)]
    assert all(0 <= group < 1 << 24 for group in groups)
    # With so many texts about 12 pairs share a group by chance.
    assert len(set(groups)) > 20_000 - 40
    by_eighth = [sum(group >> 21 == eighth for group in groups) for eighth in range(8)]
    assert min(by_eighth) > 2_000


def test_up_to_40_types_of_one_area_do_not_collide() -> None:
    area = proximity(circle((53.35, -6.26), 200), CENTRE)
    names = [f"application/{number:02}" for number in range(40)]
    assert len({group_id(event_type(name), area) for name in names}) == 40
