"""Loading places: from GeoJSON features and from columns of WKB, row by row.

A row that is no valid place is reported with its reason and the others are kept. The caller gives
the names of columns and properties; heights are dropped.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import shapely
from msgspec import Struct

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.area import FixedArea
from nearcast.core.model.geometry.forms.area_json import geometry_from_json, parse_json
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import shown

if TYPE_CHECKING:
    import pyarrow as pa

# Countries have long coasts, so places may have more points than other areas.
LARGEST_PLACE = 100_000
# What earlier releases accepted is still read from their logs.
LARGEST_RECORDED_PLACE = 1_000_000
_GEOMETRY_COLUMNS = ("geometry", "geometry_wkb", "geom", "wkb")


class Reject(Struct, frozen=True):
    """A row that was not loaded, counted from 0, with the reason."""

    row: int
    name: str
    reason: str


class Loaded(Struct, frozen=True):
    """The result of loading."""

    count: int
    rejects: tuple[Reject, ...]


class _Row(Struct):
    name: object
    kind: object
    parent: object
    geometry: object


def load_geojson(
    places: Places,
    source: str | bytes | Mapping[str, object],
    *,
    name: str = "name",
    kind: str = "kind",
    parent: str = "parent",
    default_kind: str | None = None,
) -> Loaded:
    """Load a FeatureCollection (or one Feature) whose properties are named as given."""
    document = source if isinstance(source, Mapping) else parse_json(source)
    if not isinstance(document, Mapping):
        raise ModelError(f"places in GeoJSON are a FeatureCollection, not {shown(document)}")
    features: object = [document]
    if document.get("type") == "FeatureCollection":
        features = document.get("features")
    elif document.get("type") != "Feature":
        raise ModelError(
            f"places in GeoJSON are a FeatureCollection, not type {shown(document.get('type'))}"
        )
    if not isinstance(features, list | tuple):
        raise ModelError(f"a FeatureCollection has a list of features, not {shown(features)}")

    def rows() -> Iterable[_Row]:
        for feature in features:
            members = feature if isinstance(feature, Mapping) else {}
            found = members.get("properties")
            properties = found if isinstance(found, Mapping) else {}
            yield _Row(
                properties.get(name),
                properties.get(kind, default_kind),
                properties.get(parent),
                members.get("geometry"),
            )

    return _load(places, rows())


def load_table(
    places: Places,
    table: "pa.Table",
    *,
    name: str = "name",
    kind: str = "kind",
    parent: str = "parent",
    geometry: str | None = None,
    default_kind: str | None = None,
) -> Loaded:
    """Load a table with one row per place and its shape as WKB.

    Without `geometry` the column is the first existing one of geometry, geometry_wkb, geom, wkb.
    """
    columns = list(table.column_names)
    shape = geometry or next((word for word in _GEOMETRY_COLUMNS if word in columns), None)
    for column in (name, shape):
        if column not in columns:
            raise ModelError(
                f"the table has no column {column or 'geometry'}; it has {', '.join(columns)}"
            )
    if kind not in columns and default_kind is None:
        raise ModelError(f"the table has no column {kind}; name it, or give a default kind")

    def values(column: str, missing: object) -> list[object]:
        if column in columns:
            found: list[object] = table.column(column).to_pylist()
            return found
        return [missing] * int(table.num_rows)

    rows = zip(
        values(name, None),
        values(kind, default_kind),
        values(parent, None),
        values(str(shape), None),
        strict=True,
    )
    return _load(places, (_Row(*row) for row in rows))


def _load(places: Places, rows: Iterable[_Row]) -> Loaded:
    count = 0
    rejects: list[Reject] = []
    for at, row in enumerate(rows):
        try:
            _add(places, row)
            count += 1
        except ModelError as error:
            called = row.name if isinstance(row.name, str) else ""
            rejects.append(Reject(at, called, str(error)))
    return Loaded(count, tuple(rejects))


def _add(places: Places, row: _Row) -> None:
    if not isinstance(row.name, str) or not isinstance(row.kind, str):
        raise ModelError(f"a place has a name and a kind, not {shown((row.name, row.kind))}")
    if row.parent is not None and not isinstance(row.parent, str):
        raise ModelError(f"a parent is the name of a place, not {shown(row.parent)}")
    places.add(row.kind, row.name, _geometry(row.geometry), row.parent or None)


def _geometry(value: object) -> FixedArea:
    if value is None:
        raise ModelError("the geometry is missing")
    if isinstance(value, bytes):
        try:
            with np.errstate(invalid="ignore"):  # NaN as a coordinate is refused below
                shape = shapely.force_2d(shapely.from_wkb(value))
        except shapely.errors.ShapelyError as error:
            raise ModelError(f"the geometry is not WKB: {error}") from None
        return geometry_from_json(shapely.geometry.mapping(shape), LARGEST_PLACE)
    if isinstance(value, Mapping) and isinstance(value.get("coordinates"), list):
        value = {**value, "coordinates": _flat(value["coordinates"], 4)}
    return geometry_from_json(value, LARGEST_PLACE)


def _flat(value: object, depth: int) -> object:
    """Return coordinates without their heights."""
    if not isinstance(value, list) or depth == 0:
        return value
    if len(value) == 3 and all(isinstance(part, int | float) for part in value):
        return value[:2]
    return [_flat(part, depth - 1) for part in value]
