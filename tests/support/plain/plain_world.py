"""The ten-line reference, and random worlds to compare the matcher with it."""

from collections.abc import Mapping
from datetime import UTC, datetime

from hypothesis import strategies as st

from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.adaptation.weighted_filter import selecting_filter
from nearcast.core.language import Filter, Operation, Property, parse
from nearcast.core.language.ast import Array, Geometry, Node
from nearcast.core.model import (
    SEE_ALL,
    SEE_ATTRIBUTES,
    SEE_IDENTITY,
    SEE_POSITION,
    Area,
    Around,
    Box,
    Circle,
    Event,
    MovingCircle,
    MovingPolygons,
    PlaceArea,
    PlaceHere,
    Polygon,
    Position,
    Subscription,
    subject_matches,
)
from nearcast.core.model.event import Relevance
from nearcast.core.model.geometry.area_resolution import holds, resolve
from nearcast.core.model.geometry.places import Places

SEE_WHERE_NAMED = SEE_POSITION | SEE_IDENTITY
Json = object


class PlainWorld:
    """What is known of everyone, in dictionaries."""

    def __init__(self) -> None:
        self.fixes: dict[str, list[Position]] = {}
        self.contexts: dict[str, Mapping[str, Json]] = {}
        self.masks: dict[tuple[str, str], int] = {}
        self.places = Places()

    def position(self, node: str) -> Position | None:
        fixes = self.fixes.get(node)
        return fixes[-1] if fixes else None

    def mask(self, viewer: str, other: str) -> int:
        return SEE_ALL if viewer == other else self.masks.get((viewer, other), SEE_ALL)

    def area(self, area: Area, caller: str) -> object:
        if (
            isinstance(area, Around)
            and area.anchor != "me"
            and self.mask(caller, area.anchor) & SEE_WHERE_NAMED != SEE_WHERE_NAMED
        ):
            return None
        return resolve(
            area, caller=self.position(caller), position_of=self.position, places=self.places
        )

    def concerns(self, event: Event, wanted: Subscription) -> int | None:
        """The reference: the priority, or None."""
        me, sees = wanted.node, self.mask(wanted.node, event.publisher)
        at = event.position if event.at_given or sees & SEE_POSITION else None
        here = self.position(me)
        situation = self._properties(event, me, sees, at)
        if not subject_matches(wanted.subject, event.subject):
            return None
        if wanted.from_ and (at is None or not holds(self.area(wanted.from_, me), at)):  # type: ignore[arg-type]
            return None
        if event.to and (here is None or not holds(self.area(event.to, event.publisher), here)):  # type: ignore[arg-type]
            return None
        for each in event.about:
            if not self.mask(me, each) & SEE_POSITION or not self.mask(me, each) & SEE_IDENTITY:
                return None
        where = selecting_filter(wanted)
        if where and where.evaluate(situation) is not True:  # type: ignore[arg-type]
            return None
        if wanted.relevance is None:
            return 1
        form, of_atom = FormFunction(wanted.where), [0, *ROW]
        priorities = [of_atom[level] for level in wanted.relevance.levels]
        for priority in range(1, 4):
            selects = form.restricted([0 < each <= priority for each in priorities])
            if selects is not None and selects.evaluate(situation) is True:  # type: ignore[arg-type]
                return priority
        return None

    def _properties(
        self, event: Event, me: str, sees: int, at: Position | None
    ) -> dict[str, object]:
        publisher = self._context(event.publisher, sees)
        about = {
            "subject": event.subject,
            "time": datetime.fromtimestamp(event.time, UTC),
            "id": event.id,
            "position": _point(at),
        }
        return {
            **event.attributes,
            "me": self._context(me, SEE_ALL),
            "publisher": publisher,
            "event": about,
        }

    def _context(self, node: str, sees: int) -> dict[str, object]:
        context: dict[str, object] = {}
        if sees & SEE_ATTRIBUTES:
            context |= self.contexts.get(node, {})
        if sees & SEE_IDENTITY:
            context["node"] = node
        fixes = self.fixes.get(node, [])
        if sees & SEE_POSITION:
            if fixes:
                context["position"] = _point(fixes[-1])
            if len(fixes) > 1:
                context["previous_position"] = _point(fixes[-2])
        return context


def _point(at: Position | None) -> dict[str, object] | None:
    return None if at is None else {"type": "Point", "coordinates": [at.lon, at.lat]}


NODES = ("ann", "bob", "cy", "dee")
ROW = (-1, 2, 1)
"""The row of the priority matrix for all subscribers with relevance."""
SUBJECTS = ("city/bus", "city/bus", "city/bus", "city/tram/7", "$city/bus", "air")
PATTERNS = (
    "city/#",
    "city/#",
    "city/#",
    "city/+",
    "city/bus",
    "#",
    "city/tram/#",
    "$city/#",
    "+/bus",
)
KINDS = ("car", "bus", "Tram", "")
CORNERS = ((53.35, -6.26), (10.0, 180.0), (89.999, 20.0), (-89.999, -130.0), (0.0, 0.0))


def wrapped(lat: float, lon: float) -> Position:
    return Position(max(-90.0, min(90.0, lat)), (lon + 180.0) % 360.0 - 180.0)


positions = st.builds(
    lambda corner, dlat, dlon: wrapped(corner[0] + dlat, corner[1] + dlon),
    st.sampled_from(CORNERS[:1] * 9 + CORNERS),
    st.sampled_from((0.0, 0.0, 0.0003, -0.0004, 0.002, -0.01, 0.03)),
    st.sampled_from((0.0, 0.0, 0.0005, -0.0003, 0.004, -0.02, 0.05, 120.0)),
)
radii = st.sampled_from((0.0, 40.0, 300.0, 2_500.0, 2_500.0, 40_000.0, 600_000.0, 5e6, 2.0e7))


def _ring(at: Position, size: float) -> Area:
    if abs(at.lat) > 89.0:
        edge = 89.99 if at.lat > 0 else -89.99
        return Polygon((((0.0, edge), (120.0, edge), (-120.0, edge), (0.0, edge)),))
    west, east = wrapped(0.0, at.lon - size).lon, wrapped(0.0, at.lon + size).lon
    south, north = at.lat - size, at.lat + size
    return Polygon((((west, south), (east, south), (east, north), (west, north), (west, south)),))


def _box(at: Position, size: float) -> Area:
    west, east = wrapped(0.0, at.lon - size).lon, wrapped(0.0, at.lon + size).lon
    return Box(max(-90.0, at.lat - size), west, min(90.0, at.lat + size), east)


anchors = st.sampled_from(("me", *NODES, "nobody"))
sizes = st.sampled_from((0.0005, 0.01, 2.0))
SQUARE = MovingPolygons(
    ((((-500.0, -500.0), (700.0, -500.0), (700.0, 500.0), (-500.0, 500.0), (-500.0, -500.0)),),)
)
areas: st.SearchStrategy[Area] = st.one_of(
    st.builds(lambda at, radius: Circle(at, radius), positions, radii),
    st.builds(lambda who, radius: Around(who, MovingCircle(radius)), anchors, radii),
    st.builds(lambda who: Around(who, MovingCircle(800.0, 300.0, -200.0)), anchors),
    st.builds(lambda who: Around(who, SQUARE), anchors),
    st.builds(_ring, positions, sizes),
    st.builds(_box, positions, sizes),
    st.sampled_from((PlaceArea("Dublin"), PlaceArea("Pole", "region"), PlaceHere("city"))),
)

names = st.sampled_from(
    ("speed", "kind", "flag", "a.b", "event.attributes.speed", "me.role", "me.level",
     "publisher.role", "publisher.level", "publisher.node", "me.node", "tags")
)  # fmt: skip
constants: st.SearchStrategy[Node] = st.one_of(
    st.sampled_from((0, 1, 2, 2.5, -3.0, 1e300)),
    st.sampled_from((*KINDS, *NODES, "chief")),
    st.booleans(),
)
who = st.sampled_from(("me", "publisher", "event", "me.position", "publisher.position"))
spots: st.SearchStrategy[Node] = st.one_of(
    who.map(Property),
    positions.map(lambda at: Geometry("Point", (at.lon, at.lat))),
)
comparisons = st.sampled_from(("=", "<>", "<", "<=", ">", ">="))
leaves: st.SearchStrategy[Node] = st.one_of(
    st.builds(
        lambda op, name, c: Operation(op, (Property(name), c)), comparisons, names, constants
    ),
    st.builds(
        lambda op, name, c: Operation(op, (c, Property(name))), comparisons, names, constants
    ),
    st.builds(
        lambda name, items: Operation("in", (Property(name), Array(tuple(items)))),
        names,
        st.lists(constants, min_size=1, max_size=4),
    ),
    st.builds(
        lambda name, low, high: Operation("between", (Property(name), low, high)),
        names,
        st.sampled_from((-1, 0, 1)),
        st.sampled_from((0, 2, 3.5)),
    ),
    names.map(lambda name: Operation("isNull", (Property(name),))),
    st.sampled_from(("flag", "me.flag")).map(Property),
    st.builds(
        lambda op, a, b, m: Operation(op, (Operation("distance", (a, b)), m)),
        comparisons,
        spots,
        spots,
        st.sampled_from((0, 100.0, 5_000, 1e6)),
    ),
    spots.map(lambda at: Operation("approaching", (at,))),
    st.just(Operation("friend", (Property("publisher"),))),
    st.sampled_from(
        (
            parse("kind LIKE 'b%'").root,
            parse("speed * 2 > 3").root,
            parse("CASEI(kind) = CASEI('tram')").root,
            parse("speed = me.level").root,
            parse("kind < 'c'").root,
            parse("a_contains(tags, ('x'))").root,
            parse("event.subject = 'city/bus'").root,
            parse("event.time > TIMESTAMP('2001-01-01T00:00:00Z')").root,
            parse("s_intersects(event.position, POLYGON((-7 53,-6 53,-6 54,-7 54,-7 53)))").root,
            parse("TRUE").root,
            parse("FALSE").root,
        )
    ),
)


def _joined(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    parts = st.lists(children, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(lambda op, args: Operation(op, args), st.sampled_from(("and", "or")), parts),
        children.map(lambda child: Operation("not", (child,))),
    )


trees = st.recursive(leaves, _joined, max_leaves=8)
filters = st.builds(lambda root, two: Filter(root, two), leaves | leaves | trees, st.booleans())
values = st.one_of(
    st.none(), st.sampled_from((0, 1, 2.0, 2.5, -3)), st.sampled_from(KINDS), st.booleans(),
    st.just(["x", "y"]),
)  # fmt: skip
attributes = st.fixed_dictionaries(
    {"speed": values, "kind": st.sampled_from(KINDS)},
    optional={
        "flag": st.booleans(),
        "a": st.fixed_dictionaries({}, optional={"b": values}),
        "a.b": values,
        "tags": st.just(["x"]),
        "unheard": values,
    },
)
contexts = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(("chief", "car")),
        "level": values,
        "flag": st.booleans(),
        "friends": st.lists(st.sampled_from((*NODES, "eve")), max_size=3),
    },
)


@st.composite
def weighted(
    draw: st.DrawFn, wheres: st.SearchStrategy[Filter | None]
) -> tuple[Filter | None, Relevance | None]:
    """A filter, sometimes with the relevance of its atoms."""
    where = draw(wheres)
    atoms = len(FormFunction(where).atoms)
    levels = st.lists(st.integers(0, 3), min_size=atoms, max_size=atoms).filter(any).map(tuple)
    return where, draw(st.none() | st.none() | st.builds(Relevance, levels))


subscriptions = st.builds(
    lambda node, subject, wanted, from_: Subscription(
        "", node, subject, wanted[0], from_, wanted[1]
    ),
    st.sampled_from(NODES),
    st.sampled_from(PATTERNS),
    weighted(st.none() | filters | filters),
    st.none() | areas,
)
events = st.builds(
    lambda subject, who, attributes, at, given, to, about: Event(
        "e", subject, who, 1.2e9, attributes, at, given, to, about=tuple(about)
    ),
    st.sampled_from(SUBJECTS),
    st.sampled_from((*NODES, "eve")),
    attributes,
    st.none() | positions | positions,
    st.booleans(),
    st.none() | st.none() | areas,
    st.just([]) | st.just([]) | st.lists(st.sampled_from((*NODES, "eve")), max_size=2),
)
masks = st.integers(0, SEE_ALL)
