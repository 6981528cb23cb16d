"""The nouns of Nearcast: positions, areas, places, contexts, events and subscriptions."""

from nearcast.core.model.area import (
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
from nearcast.core.model.area_json import area_from_json, area_json
from nearcast.core.model.area_resolution import Anchored, check, holds, resolve
from nearcast.core.model.area_text import area_text, parse_area
from nearcast.core.model.bounds import bounding_circle
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
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.geodesy import distance_m
from nearcast.core.model.place_loading import Loaded, Reject, load_geojson, load_table
from nearcast.core.model.places import Place, Places
from nearcast.core.model.position import Position, parse_position, position_from_json
from nearcast.core.model.shapes import encode, shape_holds
from nearcast.core.model.subject import check_pattern, check_subject, subject_matches
from nearcast.core.model.visibility import (
    SEE_ALL,
    SEE_ATTRIBUTES,
    SEE_IDENTITY,
    SEE_NOTHING,
    SEE_POSITION,
)

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
