"""Coordinates that a rounding error put beyond their limits are the limits."""

import json
import struct
from collections.abc import Callable

import pytest

from nearcast.core.engine.engine import Engine
from nearcast.core.language import LanguageError, parse
from nearcast.core.model import ModelError, parse_area
from nearcast.core.model.context import NodeState, patched
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.area import Box, Circle, Polygon
from nearcast.core.model.geometry.place_loading import load_geojson, load_table
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import (
    Position,
    checked,
    parse_position,
    position,
    position_from_json,
)
from nearcast.core.model.inputs import Published, Subscribed

OVER, FAR = 180.00000000000006, 180.00000001
RING = [[170.0, 0.0], [OVER, 0.0], [180.0, 10.0], [170.0, 10.0], [170.0, 0.0]]

READERS: dict[str, Callable[[float, float], object]] = {
    "position": lambda lat, lon: position(lat, lon),
    "made": lambda lat, lon: checked(Position(lat, lon)),
    "text": lambda lat, lon: parse_position(f"{lat!r},{lon!r}"),
    "json": lambda lat, lon: position_from_json([lon, lat]),
    "context": lambda lat, lon: patched(NodeState("n"), {"position": [lon, lat]}, 0.0).position,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("lat", "lon", "meant"),
    [
        (0.0, OVER, (0.0, 180.0)),
        (0.0, -180.000000001, (0.0, -180.0)),
        (90.000000001, 0.0, (90.0, 0.0)),
        (-90.00000000000001, 0.0, (-90.0, 0.0)),
    ],
)
def test_a_position_just_beyond_is_at_the_limit(
    read: Callable[[float, float], object], lat: float, lon: float, meant: tuple[float, float]
) -> None:
    assert read(lat, lon) == Position(*meant)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_position_farther_beyond_is_refused_with_all_its_digits(
    read: Callable[[float, float], object],
) -> None:
    with pytest.raises(ModelError, match=r"longitude 180\.00000001 is beyond 180"):
        read(0.0, FAR)
    with pytest.raises(ModelError, match=r"latitude -90\.000000002 is beyond 90"):
        read(-90.000000002, 0.0)


def test_areas_just_beyond_end_at_the_limit() -> None:
    ring = ", ".join(f"{lon!r} {lat!r}" for lon, lat in RING)
    geometry = {"type": "Polygon", "coordinates": [RING]}
    meant = tuple((min(lon, 180.0), lat) for lon, lat in RING)
    for written in (f"POLYGON(({ring}))", geometry, json.dumps(geometry)):
        area = parse_area(written)
        assert isinstance(area, Polygon)
        assert area.rings == (meant,)
    assert parse_area(f"circle:90.0000000001,{OVER},5") == Circle(Position(90.0, 180.0), 5.0)
    assert parse_area(f"bbox:0,170,10,{OVER}") == Box(0.0, 170.0, 10.0, 180.0)
    assert parse_area({"bbox": [170, 0, OVER, 10]}) == Box(0.0, 170.0, 10.0, 180.0)
    with pytest.raises(ModelError, match=r"longitude 180\.00000001 is beyond 180"):
        parse_area(f"circle:0,{FAR},5")


def test_places_just_beyond_are_loaded() -> None:
    pa = pytest.importorskip("pyarrow")
    places = Places()
    feature = {
        "type": "Feature",
        "properties": {"name": "Chukotka", "kind": "region"},
        "geometry": {"type": "Polygon", "coordinates": [RING]},
    }
    assert load_geojson(places, feature).count == 1
    points = b"".join(struct.pack("<dd", *point) for point in RING)
    wkb = struct.pack("<BIII", 1, 3, 1, len(RING)) + points
    table = pa.table({"name": ["Wrangel"], "kind": ["region"], "geometry": [wkb]})
    assert load_table(places, table).rejects == ()
    for name in ("Chukotka", "Wrangel"):
        geometry = places.find(name).geometry
        assert isinstance(geometry, Polygon)
        assert max(lon for lon, _ in geometry.rings[0]) == 180.0


@pytest.mark.parametrize(
    "literal",
    [
        "S_INTERSECTS(p, POINT({lon!r} 0))",
        "S_INTERSECTS(p, BBOX(170, 0, {lon!r}, 10))",
        "S_INTERSECTS(p, POLYGON((170 0, {lon!r} 0, 180 10, 170 10, 170 0)))",
        "distance(me, POINT({lon!r} 0)) < 5",
        '{{"op": "s_intersects", "args": [{{"property": "p"}}, '
        '{{"type": "Point", "coordinates": [{lon!r}, 0]}}]}}',
        '{{"op": "s_intersects", "args": [{{"property": "p"}}, '
        '{{"bbox": [170, 0, {lon!r}, 10]}}]}}',
    ],
)
def test_filters_take_what_is_just_beyond_and_show_what_is_farther(literal: str) -> None:
    def read(lon: float) -> object:
        text = literal.format(lon=lon)
        return parse(json.loads(text) if text.startswith("{") else text)

    assert read(OVER) == read(180.0)
    with pytest.raises(LanguageError, match=r"Longitude 180\.00000001 is beyond 180"):
        read(FAR)


def test_attributes_just_beyond_are_at_the_limit() -> None:
    near = parse("S_INTERSECTS(p, BBOX(179, -1, 180, 1))")
    assert near.evaluate({"p": {"type": "Point", "coordinates": [OVER, 0.0]}}) is True
    assert near.evaluate({"p": [OVER, 0.0]}) is True
    assert near.evaluate({"p": {"lat": 0.0, "lon": OVER}}) is True


def test_an_event_just_beyond_is_decided_on_and_recorded_at_the_limit() -> None:
    engine = Engine()
    wanted = Subscription("s", "n", "t", from_=parse_area("bbox:-1,179,1,180"))
    event = Event("e", "t", "p", 0.0, position=Position(0.0, OVER), at_given=True)

    outcome = engine.step([Subscribed(wanted), Published(event)], 0.0)

    assert [each.event.position for each in outcome.deliveries] == [Position(0.0, 180.0)]
    recorded = outcome.records[-1].input
    assert isinstance(recorded, Published)
    assert recorded.event.position == Position(0.0, 180.0)
