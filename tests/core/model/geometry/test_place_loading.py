from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from nearcast.core.model import ModelError, Position
from nearcast.core.model.geometry.place_loading import load_geojson, load_table
from nearcast.core.model.geometry.places import Places

SQUARE = [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]
# Real places, beside the project where there are any.
REAL_PLACES = Path(__file__).parents[5] / "shared" / "data" / "places.parquet"


def feature(name: object, kind: object, geometry: object) -> dict[str, object]:
    properties = {"name": name, "kind": kind}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def test_features_become_places_and_bad_ones_are_reported() -> None:
    collection = {
        "type": "FeatureCollection",
        "features": [
            feature("Good", "zone", {"type": "Polygon", "coordinates": SQUARE}),
            feature("Dot", "zone", {"type": "Point", "coordinates": [0, 0]}),
            feature(None, "zone", {"type": "Polygon", "coordinates": SQUARE}),
            feature(
                "High", "zone", {"type": "Polygon", "coordinates": [[[*p, 7] for p in SQUARE[0]]]}
            ),
            feature("Open", "zone", {"type": "Polygon", "coordinates": [SQUARE[0][:4]]}),
            feature("Void", "zone", None),
            "nonsense",
        ],
    }
    for source in (collection, msgspec.json.encode(collection)):
        places = Places()
        loaded = load_geojson(places, source)
        assert loaded.count == len(places) == 2
        assert [(reject.row, reject.name) for reject in loaded.rejects] == [
            (1, "Dot"),
            (2, ""),
            (4, "Open"),
            (5, "Void"),
            (6, ""),
        ]
        assert "a Point has no area" in loaded.rejects[0].reason
        assert "is open" in loaded.rejects[2].reason


def test_properties_have_the_names_the_caller_says() -> None:
    places = Places()
    one = {
        "type": "Feature",
        "properties": {"NAME": "A", "in": "B"},
        "geometry": {"type": "Polygon", "coordinates": SQUARE},
    }
    load_geojson(places, one, name="NAME", parent="in", default_kind="zone")
    assert places.find("A, B", "zone").parent == "B"


def test_what_is_no_collection_is_refused() -> None:
    with pytest.raises(ModelError, match="FeatureCollection"):
        load_geojson(Places(), '{"type": "Polygon"}')
    with pytest.raises(ModelError, match="FeatureCollection"):
        load_geojson(Places(), "[]")


def test_columns_become_places_and_bad_rows_are_reported() -> None:
    square = shapely.to_wkb(shapely.box(0, 0, 1, 1))
    table = pa.table(
        {
            "name": ["Good", "Broken", "Empty", "High"],
            "kind": ["zone"] * 4,
            "parent": ["Top", None, None, None],
            "geometry_wkb": [
                square,
                b"nonsense",
                None,
                shapely.to_wkb(shapely.force_3d(shapely.box(2, 2, 3, 3)), output_dimension=3),
            ],
        }
    )
    places = Places()
    loaded = load_table(places, table)
    assert loaded.count == 2
    assert [reject.name for reject in loaded.rejects] == ["Broken", "Empty"]
    assert places.find("Good").parent == "Top"
    assert places.here("zone", Position(2.5, 2.5)) is not None


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ModelError, match="no column title; it has name"):
        load_table(Places(), pa.table({"name": ["x"], "geometry": [b""]}), name="title")
    with pytest.raises(ModelError, match="no column kind"):
        load_table(Places(), pa.table({"name": ["x"], "geometry": [b""]}))


@pytest.mark.skipif(not REAL_PLACES.exists(), reason="the shared data files are not here")
def test_real_places_load_and_hold() -> None:
    places = Places()
    loaded = load_table(places, pq.read_table(REAL_PLACES))
    assert loaded.count > 700
    assert all("no area" in reject.reason for reject in loaded.rejects)
    found = [place.label for place in places.containing(Position(53.3498, -6.2603))]
    assert found == ["neighbourhood/North Inner City, Dublin", "country/Ireland, Europe"]
    chukotka = [place.kind for place in places.containing(Position(67.5, -179.5))]
    assert chukotka == ["state", "country"]
