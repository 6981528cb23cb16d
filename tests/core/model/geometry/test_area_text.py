from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.core.model import (
    Area,
    Around,
    Box,
    Circle,
    ModelError,
    MovingCircle,
    PlaceArea,
    PlaceHere,
    Position,
    area_text,
    parse_area,
    polygon,
    vertex_count,
)
from tests.support.plain.model_strategies import areas

SQUARE = polygon([(0, 0), (1, 0), (1, 1), (0, 1)])


@settings(max_examples=300, deadline=None)
@given(areas)
def test_every_area_survives_text(area: Area) -> None:
    assert parse_area(area_text(area)) == area


@pytest.mark.parametrize(
    ("text", "area"),
    [
        ("circle:53.3,-6.2,500", Circle(Position(53.3, -6.2), 500.0)),
        (" CIRCLE: 53.3 , -6.2 , 5e2 ", Circle(Position(53.3, -6.2), 500.0)),
        ("circle:me,500", Around("me", MovingCircle(500.0))),
        ("circle:ambulance-7,500", Around("ambulance-7", MovingCircle(500.0))),
        ("circle:a%2Cb,500", Around("a,b", MovingCircle(500.0))),
        ("circle:53,500", Around("53", MovingCircle(500.0))),
        ("circle:me,500,offset=30;-20", Around("me", MovingCircle(500.0, 30.0, -20.0))),
        ("bbox:-10,170,10,-170", Box(-10, 170, 10, -170)),
        ("POLYGON((0 0, 1 0, 1 1, 0 1, 0 0))", SQUARE),
        ("polygon ( ( 0 0,1 0,1 1,0 1,0 0 ) ) ", SQUARE),
        ("place:Dublin", PlaceArea("Dublin")),
        ("place:Temple Bar", PlaceArea("Temple Bar")),
        ("place:city/Dublin, Ireland", PlaceArea("Dublin, Ireland", "city")),
        ("place:pub/The%2FOdd%20One", PlaceArea("The/Odd One", "pub")),
        ("place:here/city", PlaceHere("city")),
        (
            '{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,1],[0,0]]]}',
            SQUARE,
        ),
    ],
)
def test_the_documented_forms_are_read(text: str, area: Area) -> None:
    assert parse_area(text) == area
    assert parse_area(text.encode()) == area


def test_a_multipolygon_is_read_with_its_holes() -> None:
    area = parse_area(
        "MULTIPOLYGON(((0 0,9 0,9 9,0 9,0 0),(4 4,5 4,5 5,4 4)),((20 0,21 0,21 1,20 0)))"
    )
    assert area_text(area).startswith("MULTIPOLYGON(((0 0, 9 0")
    assert parse_area(area_text(area)) == area


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("cirle:1,2,3", "did you mean circle"),
        ("POLYGN((0 0,1 1))", "did you mean polygon"),
        ("circle:1", "1 fields; write circle:LAT,LON,METRES"),
        ("circle:1,2,3,4", "4 fields"),
        ("circle:91,0,5", "latitude 91 is beyond 90"),
        ("circle:nan,0,5", "latitude nan is not a finite"),
        ("circle:1,2,-5", "radius -5 is negative"),
        ("circle:me,x", "radius 'x' is not a number"),
        ("circle:me,5,offset=1", "offset=EAST;NORTH"),
        ("circle:100%,5", "write %25"),
        ("circle:%ff,5", "UTF-8"),
        ("circle:,5", "missing"),
        ("bbox:1,2,3", "3 numbers of 4"),
        ("bbox:3,2,1,4", "south"),
        ("place:", "needs a name"),
        ("place:here", "needs a kind"),
        ("place:city/", "lacks a kind or a name"),
        ("POINT(1 2)", "a point has no area"),
        ("POLYGON EMPTY", "holds nobody"),
        ("POLYGON Z((0 0 1))", "leave out heights"),
        ("POLYGON((0 0,1 0,1 1,0 1))", "ring 1 is open"),
        ("POLYGON((0 0,1 0,1 1", "expected .* found the end"),
        ("POLYGON((0 0,1 0 5,1 1,0 0))", "expected ',' or '\\)'"),
        ("POLYGON((0 0,1,1 1,0 0))", "two numbers"),
        ("POLYGON((0 0,1 0,1 1,0 0)) x", "expected the end"),
        ("POLYGON((0 0,1 nan,1 1,0 0))", "not a finite"),
        ("{nope", "not valid JSON"),
        ("x" * 300_000, "at most 262144 bytes"),
    ],
)
def test_errors_say_what_is_wrong_and_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        parse_area(text)


@given(st.text(max_size=60))
def test_no_text_does_worse_than_an_error(text: str) -> None:
    for prefix in ("", "circle:", "bbox:", "place:", "POLYGON((", "{"):
        with suppress(ModelError):
            parse_area(prefix + text)


def test_too_many_points_are_refused() -> None:
    ring = ",".join(f"{i * 1e-4} 0" for i in range(10_001))
    with pytest.raises(ModelError, match="at most 10000 points"):
        parse_area(f"POLYGON(({ring}))")
    flood = {"type": "Polygon", "coordinates": [[[0, 0]] * 10_001]}
    with pytest.raises(ModelError, match="at most 10000 points"):
        parse_area(flood)


def test_a_reader_may_set_another_limit_of_points() -> None:
    ring = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
    moving = {"moving": {"with": "me", "multipolygon": [[ring], [ring]]}}
    for area, points in (
        ({"type": "Polygon", "coordinates": [ring]}, 5),
        (moving, 10),
        ("MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)), ((0 0, 1 0, 1 1, 0 0)))", 8),
        ("POLYGON((0 0, 1 0, 1 1, 0 0 ))", 4),
    ):
        assert vertex_count(parse_area(area, points)) == points
        with pytest.raises(ModelError, match=f"at most {points - 1} points"):
            parse_area(area, points - 1)
    assert [vertex_count(parse_area(each)) for each in ("circle:me,5", "place:x")] == [0, 0]


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("circle:53.35, x,5", 14),
        ("circle:91,0,5", 7),
        ("circle:0,181,5", 9),
        ("circle:0,0,-5", 11),
        (" circle: me, x", 12),
        ("circle:me,5,offset=1", 12),
        ("bbox:1,2,3,x", 11),
        ("bbox:3,2,1,4", 5),
        ("place:here", 6),
        ("circel:1,2,3", 0),
        ("POLYGON((0 0,1 0 5,1 1,0 0))", 17),
        ("POLYGON((0 0,1 x,1 1,0 0))", 15),
        ("POLYGON((0 0,1 0,1 1", 20),
        ("POLYGON((0 0,1 0,1 1,0 1))", 0),
    ],
)
def test_errors_point_at_what_is_wrong(text: str, column: int) -> None:
    with pytest.raises(ModelError) as caught:
        parse_area(text)
    *_, line, caret = str(caught.value).split("\n")
    assert line == text.strip()
    assert caret == " " * column + "^"
