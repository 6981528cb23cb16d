"""The nouns of Nearcast: positions, areas, places, contexts, events and subscriptions.

Anything that needs numba, numpy or shapely is imported from its own module: a client works without
them.
"""

from nearcast.core.model.context import Context as Context
from nearcast.core.model.context import NodeState as NodeState
from nearcast.core.model.context import aggregate as aggregate
from nearcast.core.model.context import check_attributes as check_attributes
from nearcast.core.model.context import merge_patch as merge_patch
from nearcast.core.model.context import moved as moved
from nearcast.core.model.context import patched as patched
from nearcast.core.model.errors import ModelError as ModelError
from nearcast.core.model.errors import PlaceError as PlaceError
from nearcast.core.model.event import Announcement as Announcement
from nearcast.core.model.event import Delivery as Delivery
from nearcast.core.model.event import Event as Event
from nearcast.core.model.event import Subscription as Subscription
from nearcast.core.model.geometry.area import Area as Area
from nearcast.core.model.geometry.area import Around as Around
from nearcast.core.model.geometry.area import Box as Box
from nearcast.core.model.geometry.area import Circle as Circle
from nearcast.core.model.geometry.area import FixedArea as FixedArea
from nearcast.core.model.geometry.area import MovingCircle as MovingCircle
from nearcast.core.model.geometry.area import MovingPolygons as MovingPolygons
from nearcast.core.model.geometry.area import MovingShape as MovingShape
from nearcast.core.model.geometry.area import MultiPolygon as MultiPolygon
from nearcast.core.model.geometry.area import PlaceArea as PlaceArea
from nearcast.core.model.geometry.area import PlaceHere as PlaceHere
from nearcast.core.model.geometry.area import Polygon as Polygon
from nearcast.core.model.geometry.area import box as box
from nearcast.core.model.geometry.area import circle as circle
from nearcast.core.model.geometry.area import moving_box as moving_box
from nearcast.core.model.geometry.area import place as place
from nearcast.core.model.geometry.area import polygon as polygon
from nearcast.core.model.geometry.area import vertex_count as vertex_count
from nearcast.core.model.geometry.forms.area_json import area_from_json as area_from_json
from nearcast.core.model.geometry.forms.area_json import area_json as area_json
from nearcast.core.model.geometry.forms.area_text import area_text as area_text
from nearcast.core.model.geometry.forms.area_text import parse_area as parse_area
from nearcast.core.model.geometry.position import Position as Position
from nearcast.core.model.geometry.position import parse_position as parse_position
from nearcast.core.model.geometry.position import position_from_json as position_from_json
from nearcast.core.model.subject import check_pattern as check_pattern
from nearcast.core.model.subject import check_subject as check_subject
from nearcast.core.model.subject import subject_matches as subject_matches
from nearcast.core.model.visibility import SEE_ALL as SEE_ALL
from nearcast.core.model.visibility import SEE_ATTRIBUTES as SEE_ATTRIBUTES
from nearcast.core.model.visibility import SEE_IDENTITY as SEE_IDENTITY
from nearcast.core.model.visibility import SEE_NOTHING as SEE_NOTHING
from nearcast.core.model.visibility import SEE_POSITION as SEE_POSITION
