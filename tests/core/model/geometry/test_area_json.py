import msgspec
import pytest
from hypothesis import given, settings

from nearcast.core.model import (
    Area,
    Around,
    Circle,
    ModelError,
    MovingCircle,
    MultiPolygon,
    PlaceArea,
    Position,
    area_from_json,
    area_json,
    moving_box,
    parse_area,
    polygon,
)
from tests.support.plain.model_strategies import areas

SQUARE = [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]
POLYGON = polygon([(0, 0), (1, 0), (1, 1), (0, 1)])


@settings(max_examples=300, deadline=None)
@given(areas)
def test_every_area_survives_json(area: Area) -> None:
    assert area_from_json(area_json(area)) == area
    assert parse_area(msgspec.json.encode(area_json(area))) == area


@pytest.mark.parametrize(
    ("value", "area"),
    [
        (
            {"circle": {"center": [-6.2, 53.3], "radius": 500}},
            Circle(Position(53.3, -6.2), 500.0),
        ),
        ({"circle": {"center": "me", "radius": 5}}, Around("me", MovingCircle(5.0))),
        (
            {"circle": {"center": "bus%207", "radius": 5, "offset": [1, 2]}},
            Around("bus 7", MovingCircle(5.0, 1.0, 2.0)),
        ),
        (
            {"moving": {"with": "me", "box": {"width": 4, "height": 2, "offset": [0, 9]}}},
            Around("me", moving_box(4, 2, (0, 9))),
        ),
        ({"place": "city/Dublin"}, PlaceArea("Dublin", "city")),
        ({"type": "Polygon", "coordinates": SQUARE}, POLYGON),
        ({"type": "MultiPolygon", "coordinates": [SQUARE]}, MultiPolygon((POLYGON,))),
        (
            {
                "type": "Feature",
                "properties": None,
                "geometry": {"type": "Polygon", "coordinates": SQUARE},
            },
            POLYGON,
        ),
    ],
)
def test_the_documented_forms_are_read(value: dict[str, object], area: Area) -> None:
    assert parse_area(value) == area


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "has one member of circle"),
        ({"circel": {}}, "did you mean circle"),
        ({"circle": {"center": [0, 0]}}, 'lacks "radius"'),
        ({"circle": {"center": [0, 0], "radius": 1, "ofset": []}}, "did you mean offset"),
        ({"circle": {"center": [0, 91], "radius": 1}}, "latitude 91"),
        ({"circle": {"center": [0], "radius": 1}}, "two numbers"),
        ({"circle": {"center": [0, 0], "radius": True}}, "radius True is not a number"),
        ({"circle": [1]}, "object with members"),
        ({"moving": {"with": "me"}}, "one of polygon, multipolygon or box"),
        ({"moving": {"polygon": SQUARE}}, 'lacks "with"'),
        ({"moving": {"with": 1, "polygon": SQUARE}}, "id of a node"),
        ({"place": 1}, "NAME"),
        ({"type": "Point", "coordinates": [0, 0]}, "a Point has no area"),
        ({"type": "Polygn", "coordinates": SQUARE}, "did you mean Polygon"),
        ({"type": "FeatureCollection", "features": []}, "many areas"),
        ({"type": "Polygon"}, "must be a list of rings"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]]}, "at least 4"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1], [1, 1], [0, 0]]]}, "two numbers"),
        ({"type": "Polygon", "coordinates": [[0, 1, 2, 3]]}, "two numbers"),
        ({"type": "MultiPolygon", "coordinates": []}, "at least one polygon"),
    ],
)
def test_errors_say_what_is_wrong_and_what_would_be_right(
    value: dict[str, object], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        parse_area(value)


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    with pytest.raises(ModelError, match="JSON"):
        parse_area('{"type":' + "[" * 100_000)
