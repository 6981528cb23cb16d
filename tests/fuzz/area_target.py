"""Areas as text, WKT and JSON: what is read can be written and read again, the rest is refused."""

import json
from random import Random

from nearcast.core.model import (
    Area,
    Circle,
    ModelError,
    area_from_json,
    area_json,
    area_text,
    parse_area,
)
from nearcast.core.model.errors import MisreadError
from nearcast.core.model.geometry.places import Places
from nearcast.store.rows.area_form import area_from_store, stored_area
from tests.support.fuzzing.fuzz_target import FuzzTarget
from tests.support.fuzzing.mutations import HOSTILE_NUMBERS, HOSTILE_TEXTS, mutated_text

LONGEST_ERROR = 2_000
"""An error is sent in a reason string and written to logs."""
_WORDS = (
    "circle:", "bbox:", "place:", "here", "me", ",", ";", "/", "offset=1;2", "POLYGON", "Z",
    "EMPTY", "MULTIPOLYGON", "((", "))", "(" * 200, '{"type":"Feature","geometry":', "[", "]", "{",
    "}", '"radius":', "[[[", "1e5", " ", "null", '"\\ud800"', '"\\u0000"', "[" * 3_000,
)  # fmt: skip


EXAMPLES = {
    "an error that repeats a long box": "bbox:" + "[" * 3_000,
    "an error that repeats a long circle": "circle:" + "," * 3_000,
    "an error that repeats a long place": "place:" + "x" * 3_000 + "/",
    "an error about lists as deep as JSON goes": '{"type":"Polygon","coordinates":'
    + "[" * 930
    + "]" * 930
    + "}",
    "a reason with the path to a problem far inside": '{"bbox":'
    + "[" * 700
    + "1e400"
    + "]" * 700
    + "}",
    "features in features": '{"type":"Feature","geometry":' * 930 + "{}" + "}" * 930,
    "a long word that is like no other": '{"' + "polygon" * 30_000 + '":1}',
}


class AreaTarget(FuzzTarget[str]):
    """Any text that somebody may send as an area."""

    name = "areas"
    suite_cases = 10_000
    examples = EXAMPLES

    def generate(self, random: Random) -> str:
        if random.random() < 0.02:
            return _nested(random)
        text = _area(random)
        return mutated_text(random, text, _WORDS) if random.random() < 0.6 else text

    def check(self, case: str) -> None:
        try:
            area = parse_area(case)
        except ModelError as error:
            check_error(error, case)
            return
        check_forms(area)


def check_error(error: ModelError, text: str) -> None:
    """Assert that an error can be sent to who wrote the text, and points into it."""
    shown = str(error)
    assert len(shown) <= LONGEST_ERROR, f"the error has {len(shown)} characters"
    shown.encode()
    if isinstance(error, MisreadError):
        assert 0 <= error.position <= len(error.text), error.position
        assert error.text.strip() in text


def check_forms(area: Area) -> None:
    """Assert that all written forms of an area are read back as an equal one."""
    text = area_text(area)
    text.encode()
    assert parse_area(text) == area, text
    written = area_json(area)
    assert area_from_json(written) == area, written
    assert area_from_json(json.loads(json.dumps(written))) == area, written
    assert area_from_store(json.loads(json.dumps(stored_area(area)))) == area
    if isinstance(area, Circle):
        places = Places()
        places.add("kind", "name", area)
        assert places.containing(area.center), "a circle contains its centre"


def number(random: Random, largest: float) -> str:
    """Return a number as text, now and then one that no coordinate can be."""
    if random.random() < 0.05:
        return random.choice(HOSTILE_NUMBERS)
    if random.random() < 0.1:
        return random.choice(("0", "-0.0", "90", "-90", "180", "-180", "1e-9", "89.9999999"))
    return repr(round(random.uniform(-largest, largest), random.choice((0, 3, 9))))


def _name(random: Random) -> str:
    return random.choice(("me", "car-7", "a%2Cb", "here", "ambulance-7~siren", *HOSTILE_TEXTS))


def _ring(random: Random, scale: float) -> list[list[float]]:
    lon, lat = random.uniform(-180, 180), random.uniform(-80, 80)
    points = [
        [
            round(max(-180.0, min(180.0, lon + random.uniform(-scale, scale))), 6),
            round(max(-90.0, min(90.0, lat + random.uniform(-scale, scale))), 6),
        ]
        for _ in range(random.choice((2, 3, 4, 5, 12)))
    ]
    return [*points, points[0]] if random.random() < 0.9 else points


def polygon_json(random: Random) -> dict[str, object]:
    """Return a GeoJSON geometry or Feature, mostly valid."""
    scale = random.choice((0.01, 1.0, 50.0, 170.0))
    rings = [_ring(random, scale) for _ in range(random.choice((1, 1, 1, 2)))]
    geometry: dict[str, object] = {"type": "Polygon", "coordinates": rings}
    if random.random() < 0.3:
        more = [[_ring(random, scale)] for _ in range(random.randint(0, 3))]
        geometry = {"type": "MultiPolygon", "coordinates": [rings, *more]}
    if random.random() < 0.3:
        return {"type": "Feature", "geometry": geometry, "properties": {"name": "x"}}
    return geometry


def _wkt(random: Random) -> str:
    def rings() -> str:
        line = ", ".join(f"{lon} {lat}" for lon, lat in _ring(random, 10.0))
        return f"(({line}))"

    if random.random() < 0.5:
        return f"POLYGON {rings()}"
    return f"multipolygon({','.join(rings() for _ in range(random.randint(1, 3)))})"


def _nested(random: Random) -> str:
    """Return lists in lists, about as deep as parsers and writers of JSON go."""
    depth = random.choice((30, 300, random.randint(800, 1_100), 20_000))
    before, after = random.choice(
        (
            ("", ""),
            ('{"circle":', "}"),
            ('{"circle":{"radius":1,"center":', "}}"),
            ('{"circle":{"radius":1,"center":[1,', "]}}"),
            ('{"type":"Polygon","coordinates":', "}"),
            ('{"type":', "}"),
            ('{"moving":{"with":', ',"polygon":[]}}'),
        )
    )
    if random.random() < 0.2:
        return '{"type":"Feature","geometry":' * depth + "{}" + "}" * depth
    return f"{before}{'[' * depth}{']' * depth}{after}"


def _area(random: Random) -> str:
    match random.randrange(9):
        case 0:
            lat, lon = number(random, 90), number(random, 180)
            return f"circle:{lat},{lon},{number(random, 3e5).lstrip('-')}"
        case 1:
            return f"circle:{_name(random)},{number(random, 3e5).lstrip('-')}"
        case 2:
            offset = f"{number(random, 500)};{number(random, 500)}"
            return f"circle:me,{number(random, 500).lstrip('-')},offset={offset}"
        case 3:
            south, north = sorted((random.uniform(-90, 90), random.uniform(-90, 90)))
            return f"bbox:{south},{number(random, 180)},{north},{number(random, 180)}"
        case 4:
            return f"place:{random.choice(('', 'here/', 'city/'))}{_name(random)}"
        case 5:
            return _wkt(random)
        case 6:
            return json.dumps(polygon_json(random))
        case 7:
            center = random.choice((_name(random), [random.uniform(-180, 180), 53.0]))
            circle = {"center": center, "radius": random.uniform(0, 3e7)}
            if random.random() < 0.3:
                circle["offset"] = [random.uniform(-1e5, 1e5), 0]
            return json.dumps({"circle": circle})
        case _:
            ring = [[0, 0], [random.uniform(1, 1e6), 0], [0, random.uniform(1, 1e6)], [0, 0]]
            moving = random.choice(
                (
                    {"with": _name(random), "polygon": [ring]},
                    {"with": "me", "multipolygon": [[ring], [ring]]},
                    {"with": "me", "box": {"width": random.uniform(0, 1e6), "height": 5}},
                )
            )
            return json.dumps({"moving": moving})
