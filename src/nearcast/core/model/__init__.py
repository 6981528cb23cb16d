"""The nouns of Nearcast: positions, areas, places, contexts, events and subscriptions.

What needs numba, numpy or shapely is loaded when it is first used: a client does without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from nearcast.core.model.context import (
    Context,
    NodeState,
    aggregate,
    check_attributes,
    merge_patch,
    moved,
    patched,
)
from nearcast.core.model.errors import ModelError, PlaceError
from nearcast.core.model.event import Announcement, Delivery, Event, Subscription
from nearcast.core.model.geometry.area import (
    Area,
    Around,
    Box,
    Circle,
    FixedArea,
    MovingCircle,
    MovingPolygons,
    MovingShape,
    MultiPolygon,
    PlaceArea,
    PlaceHere,
    Polygon,
    box,
    circle,
    moving_box,
    place,
    polygon,
)
from nearcast.core.model.geometry.area_json import area_from_json, area_json
from nearcast.core.model.geometry.area_text import area_text, parse_area
from nearcast.core.model.geometry.position import Position, parse_position, position_from_json
from nearcast.core.model.subject import check_pattern, check_subject, subject_matches
from nearcast.core.model.visibility import (
    SEE_ALL,
    SEE_ATTRIBUTES,
    SEE_IDENTITY,
    SEE_NOTHING,
    SEE_POSITION,
)

if TYPE_CHECKING:
    from nearcast.core.model.event_batch import EventBatch
    from nearcast.core.model.geometry.area_resolution import Anchored, check, holds, resolve
    from nearcast.core.model.geometry.bounds import bounding_circle
    from nearcast.core.model.geometry.geodesy import distance_m
    from nearcast.core.model.geometry.place_loading import Loaded, Reject, load_geojson, load_table
    from nearcast.core.model.geometry.places import Place, Places
    from nearcast.core.model.geometry.shapes import encode, shape_holds

__all__ = [
    "SEE_ALL",
    "SEE_ATTRIBUTES",
    "SEE_IDENTITY",
    "SEE_NOTHING",
    "SEE_POSITION",
    "Anchored",
    "Announcement",
    "Area",
    "Around",
    "Box",
    "Circle",
    "Context",
    "Delivery",
    "Event",
    "EventBatch",
    "FixedArea",
    "Loaded",
    "ModelError",
    "MovingCircle",
    "MovingPolygons",
    "MovingShape",
    "MultiPolygon",
    "NodeState",
    "Place",
    "PlaceArea",
    "PlaceError",
    "PlaceHere",
    "Places",
    "Polygon",
    "Position",
    "Reject",
    "Subscription",
    "aggregate",
    "area_from_json",
    "area_json",
    "area_text",
    "bounding_circle",
    "box",
    "check",
    "check_attributes",
    "check_pattern",
    "check_subject",
    "circle",
    "distance_m",
    "encode",
    "holds",
    "load_geojson",
    "load_table",
    "merge_patch",
    "moved",
    "moving_box",
    "parse_area",
    "parse_position",
    "patched",
    "place",
    "polygon",
    "position_from_json",
    "resolve",
    "shape_holds",
    "subject_matches",
]

_LOADED_LATER = {
    "Anchored": "geometry.area_resolution",
    "EventBatch": "event_batch",
    "Loaded": "geometry.place_loading",
    "Place": "geometry.places",
    "Places": "geometry.places",
    "Reject": "geometry.place_loading",
    "bounding_circle": "geometry.bounds",
    "check": "geometry.area_resolution",
    "distance_m": "geometry.geodesy",
    "encode": "geometry.shapes",
    "holds": "geometry.area_resolution",
    "load_geojson": "geometry.place_loading",
    "load_table": "geometry.place_loading",
    "resolve": "geometry.area_resolution",
    "shape_holds": "geometry.shapes",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LOADED_LATER[name]}"), name)
    globals()[name] = found
    return found
