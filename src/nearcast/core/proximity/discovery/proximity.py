"""Proximities: an area of any shape, fixed in space or moving with its producer (seed D).

A proximity is described by its area and its naval, the point that ties it to the world: a fixed
one, or the moving producer. Its description names the naval where the proximity was announced, so
that every node computes the same group from it, wherever the producer is by then. A moving one may
grow with speed: its reach is longer by what the producer travels in so many seconds.
"""

from functools import lru_cache

from msgspec import Struct

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.area import (
    ME,
    Area,
    Around,
    Circle,
    FixedArea,
    MovingCircle,
    MovingPolygons,
    MovingShape,
    PlaceArea,
    PlaceHere,
    vertex_count,
)
from nearcast.core.model.geometry.area_resolution import Anchored, code_holds, holds
from nearcast.core.model.geometry.bounds import bounding_circle
from nearcast.core.model.geometry.forms.area_text import area_text, parse_area
from nearcast.core.model.geometry.position import Position, checked, plain
from nearcast.core.model.geometry.shapes import Code, encode

MOST_VERTICES = 64
LARGEST_SCALE = 100.0
MOST_GROWTH_S = 600.0
_MOVING = (MovingCircle, MovingPolygons)


class Proximity(Struct, frozen=True):
    """An area and where it was announced."""

    area: FixedArea | MovingShape
    initial: Position
    """The naval when it was announced: the centre of a fixed area, else where the producer was."""
    grow_s: float = 0.0

    @property
    def moves(self) -> bool:
        """True if it moves with its producer."""
        return isinstance(self.area, _MOVING)

    @property
    def area_text(self) -> str:
        """The area as text, in which a moving one is around "me"."""
        return area_text(self._area(ME))

    @property
    def text(self) -> str:
        """The textual description, of which groups are named."""
        kind = "mobile" if self.moves else "stationary"
        at = f"{plain(self.initial.lat)},{plain(self.initial.lon)}"
        return f"{kind};{self.area_text};{plain(self.grow_s)};{at}"

    def scale(self, speed_mps: float) -> float:
        """Return the factor by which it is larger at a speed."""
        if not self.grow_s:
            return 1.0
        reach_m = self._moving_reach_m()
        grown = 1.0 + self.grow_s * speed_mps / reach_m if reach_m else 1.0
        return round(min(grown, LARGEST_SCALE), 3)

    def target(self, producer: str, scale: float = 1.0) -> Area:
        """Return the area as the target of a producer's events."""
        return self._area(producer, scale)

    def holds(self, at: Position, naval: Position, scale: float = 1.0) -> bool:
        """Return whether a position is inside while the naval is there."""
        if isinstance(self.area, _MOVING):
            return holds(Anchored(naval, scaled(self.area, scale)), at)
        return code_holds(_code_of(self.area), at)

    def reach_m(self, at: Position, scale: float = 1.0) -> float:
        """Return how far from the producer, who is there, its farthest point is at most."""
        if self.moves:
            return self._moving_reach_m() * scale
        if isinstance(self.area, Circle):
            return at.distance_m(self.area.center) + self.area.radius_m
        lat, lon, reach_m = bounding_circle(self.area)
        return at.distance_m(Position(lat, lon)) + reach_m

    def _moving_reach_m(self) -> float:
        if isinstance(self.area, MovingCircle) and not (self.area.east_m or self.area.north_m):
            return self.area.radius_m
        return bounding_circle(self.area)[2]

    def _area(self, anchor: str, scale: float = 1.0) -> Area:
        if isinstance(self.area, _MOVING):
            return Around(anchor, scaled(self.area, scale))
        return self.area


@lru_cache(1_024)
def _code_of(area: FixedArea) -> Code:
    return encode(area)


def proximity(area: Area, at: Position, grow_s: float = 0.0) -> Proximity:
    """Return the proximity of an area that is announced at a position.

    An area around "me" moves. Raises `ModelError` for areas that nodes without a broker cannot
    know, or that a beacon cannot carry.
    """
    if isinstance(area, PlaceArea | PlaceHere):
        raise ModelError("a proximity is a shape, not a named place; give the place's geometry")
    if not 0.0 <= grow_s <= MOST_GROWTH_S:
        raise ModelError(f"grow_s is {grow_s} seconds; it is from 0 to {MOST_GROWTH_S:g}")
    if vertex_count(area) > MOST_VERTICES:
        raise ModelError(
            f"a proximity has at most {MOST_VERTICES} points, not {vertex_count(area)}: it "
            "travels in every beacon; give a simpler polygon or a circle"
        )
    if isinstance(area, Around):
        if area.anchor != ME:
            raise ModelError(
                f"a moving proximity moves with its producer ('me'), not with {area.anchor!r}"
            )
        return Proximity(area.shape, at, grow_s)
    if grow_s:
        raise ModelError("only a proximity that moves with its producer grows with its speed")
    return Proximity(area, naval_of(area))


def naval_of(area: FixedArea) -> Position:
    """Return the naval of a fixed area."""
    if isinstance(area, Circle):
        return area.center
    lat, lon, _ = bounding_circle(area)
    return Position(lat, lon)


def read_proximity(text: str, initial: Position, grow_s: float) -> Proximity:
    """Return the proximity that a beacon describes, or raise `ModelError`."""
    found = proximity(parse_area(text, MOST_VERTICES), initial, grow_s)
    return Proximity(found.area, checked(initial), grow_s)


def scaled(shape: MovingShape, scale: float) -> MovingShape:
    """Return a moving shape larger by a factor, its reference point included."""
    if scale == 1.0:
        return shape
    if isinstance(shape, MovingCircle):
        return MovingCircle(shape.radius_m * scale, shape.east_m * scale, shape.north_m * scale)
    return MovingPolygons(
        tuple(
            tuple(tuple((x * scale, y * scale) for x, y in ring) for ring in rings)
            for rings in shape.polygons
        )
    )
