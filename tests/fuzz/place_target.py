"""Places: defined by commands and files, found by name and by position."""

import json
from random import Random

import pyarrow as pa
import shapely

from nearcast.broker.hub import Hub
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.situation.commands import command
from nearcast.core.model import ModelError, Position
from nearcast.core.model.geometry.geodesy import ecef
from nearcast.core.model.geometry.place_loading import Loaded, load_geojson, load_table
from nearcast.core.model.geometry.places import Place, Places
from nearcast.core.model.geometry.shapes import encode, shape_holds
from nearcast.core.model.inputs import PlaceDefined
from nearcast.wire.mqtt import Connect, Publish
from tests.fuzz.area_target import polygon_json
from tests.support.fuzzing.fuzz_target import FuzzTarget
from tests.support.fuzzing.mutations import HOSTILE_TEXTS, mutated_bytes, mutated_text

COMMAND, FILE, TABLE, FIND = "command", "file", "table", "find"
_NAMES = ("Dublin", "park", "a%2Fb", "a/b", "Dublin, Ireland", *HOSTILE_TEXTS)
_KINDS = ("city", "park", "here", "%C3%A9", *HOSTILE_TEXTS)
_PROBES = tuple(
    Position(lat, lon) for lat in (-90.0, -41.0, 0.0, 53.0) for lon in (-180.0, 0.0, 77.0)
)
_WORDS = ("[", "]", "{", "}", ",", "null", '"type"', '"Feature"', '"geometry"', "1e400", "181")
Step = tuple[str, str, bytes]
EXAMPLES: dict[str, tuple[Step, ...]] = {}


class PlaceTarget(FuzzTarget[tuple[Step, ...]]):
    """A registry of places; a step is its kind, a topic or a name, and the content."""

    name = "places"
    suite_cases = 500
    examples = EXAMPLES

    def __init__(self) -> None:
        hub, connection = Hub(), Connection()
        hub.receive(connection, [Connect("mapper")], 1.0)
        hub.tick(1.0)
        self._session = hub.sessions["mapper"]

    def generate(self, random: Random) -> tuple[Step, ...]:
        return tuple(_step(random) for _ in range(random.randint(1, 6)))

    def check(self, case: tuple[Step, ...]) -> None:
        places = Places()
        for kind, name, content in case:
            try:
                self._apply(places, kind, name, content)
            except (ModelError, RefusedError) as error:
                str(error).encode()
        check_places(places)

    def _apply(self, places: Places, kind: str, name: str, content: bytes) -> None:
        if kind == COMMAND:
            parsed = command(self._session, Publish(f"$place/{name}", content), ())
            for value in parsed.inputs:
                assert isinstance(value, PlaceDefined)
                if value.geometry is None:
                    places.remove(value.place_kind, value.name)
                else:
                    defined = places.add(value.place_kind, value.name, value.geometry)
                    assert (
                        places.find_first(value.name, value.place_kind).geometry == defined.geometry
                    )
        elif kind == FILE:
            _check_loaded(load_geojson(places, content))
        elif kind == TABLE:
            rows = pa.table({"name": [name, "x"], "kind": ["city", name], "wkb": [content, b""]})
            assert _check_loaded(load_table(places, rows)) == 2
        else:
            assert places.find(name) in list(places)


def _check_loaded(loaded: Loaded) -> int:
    for reject in loaded.rejects:
        reject.reason.encode()
    return loaded.count + len(loaded.rejects)


def check_places(places: Places) -> None:
    """Assert that the index finds what a plain search does, and every place has its place above."""
    for probe in _PROBES:
        expected = {place.key for place in places if _holds(place, probe)}
        assert {place.key for place in places.containing(probe)} == expected
    for place in places:
        assert place.area_m2 >= 0.0
        assert place not in places.ancestors(place)


def _holds(place: Place, at: Position) -> bool:
    x, y, z = ecef(at.lat, at.lon)
    return bool(shape_holds(encode(place.geometry), 0, at.lat, at.lon, x, y, z, 0.0, 0.0))


def _step(random: Random) -> Step:
    name, geometry = random.choice(_NAMES), polygon_json(random)
    match random.randrange(5):
        case 0 | 1:
            topic = f"{random.choice(_KINDS)}/{name}"
            content = b"" if random.random() < 0.1 else _json(random, geometry)
            return COMMAND, topic, content
        case 2:
            features = [_feature(random) for _ in range(random.randint(0, 3))]
            collection = {"type": "FeatureCollection", "features": features}
            return FILE, "", _json(random, collection)
        case 3:
            shape = shapely.box(0, 0, random.uniform(-200, 200), 50)
            wkb = shapely.to_wkb(random.choice((shape, shape.centroid, shape.boundary)))
            return TABLE, name, mutated_bytes(random, wkb) if random.random() < 0.7 else wkb
        case _:
            return FIND, random.choice((name, "Dublin, city/Dublin", f"{name}, {name}")), b""


def _feature(random: Random) -> object:
    properties: dict[str, object] = {"name": random.choice((*_NAMES, None, 5)), "kind": "city"}
    if random.random() < 0.3:
        properties["parent"] = random.choice(_NAMES)
    geometry = polygon_json(random)
    feature = {"type": "Feature", "properties": properties, "geometry": geometry}
    return random.choice((feature, feature, feature, geometry, None, []))


def _json(random: Random, value: object) -> bytes:
    text = json.dumps(value)
    if random.random() < 0.4:
        text = mutated_text(random, text, _WORDS)
    return text.encode("utf-8", "surrogatepass")
