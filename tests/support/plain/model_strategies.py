"""What the tests of the model draw: positions with the nasty ones among them, and areas."""

import math

from hypothesis import strategies as st

from nearcast.core.model import (
    Area,
    Around,
    Box,
    Circle,
    MovingCircle,
    MultiPolygon,
    PlaceArea,
    PlaceHere,
    Polygon,
    Position,
    moving_box,
)

NASTY_LATITUDES = (-90.0, 90.0, 0.0, -0.0, 45.0, 89.999999, -89.999999, 1e-9)
NASTY_LONGITUDES = (-180.0, 180.0, 0.0, 90.0, -90.0, 179.999999, -179.999999, 1e-9)

latitudes = st.one_of(st.sampled_from(NASTY_LATITUDES), st.floats(-90, 90))
longitudes = st.one_of(st.sampled_from(NASTY_LONGITUDES), st.floats(-180, 180))
positions = st.builds(Position, latitudes, longitudes)
radii_m = st.one_of(st.sampled_from((0.0, 500_000.0, 20_040_000.0)), st.floats(0, 2e7))

boxes = st.builds(
    lambda a, west, b, east: Box(min(a, b), west, max(a, b), east),
    latitudes,
    longitudes,
    latitudes,
    longitudes,
)


@st.composite
def stars(draw: st.DrawFn, largest_degrees: float = 40.0) -> Polygon:
    """A ring round a centre, each corner at a distance of its own: simple, often concave."""
    corners = draw(st.integers(3, 9))
    size = draw(st.floats(0.001, largest_degrees))
    lat = draw(st.floats(-89.0 + size, 89.0 - size))
    lon = draw(longitudes)
    shares = draw(st.lists(st.floats(0.2, 1.0), min_size=corners, max_size=corners))
    ring = []
    for i, share in enumerate(shares):
        angle = 2.0 * math.pi * i / corners
        east, north = size * share * math.cos(angle), size * share * math.sin(angle)
        ring.append((wrapped(lon + east), lat + north))
    return Polygon(((*ring, ring[0]),))


@st.composite
def polar_caps(draw: st.DrawFn) -> Polygon:
    """A ring that winds round a pole, either way."""
    corners = draw(st.integers(3, 9))
    sign = draw(st.sampled_from((1.0, -1.0)))
    turn = draw(st.sampled_from((1.0, -1.0)))
    first = draw(longitudes)
    latitudes = draw(st.lists(st.floats(5.0, 89.0), min_size=corners, max_size=corners))
    ring = [
        (wrapped(first + turn * 360.0 * i / corners), sign * lat) for i, lat in enumerate(latitudes)
    ]
    return Polygon(((*ring, ring[0]),))


polygons = st.one_of(stars(), polar_caps())
multipolygons = st.builds(
    lambda parts: MultiPolygon(tuple(parts)), st.lists(polygons, min_size=1, max_size=3)
)
fixed_areas = st.one_of(st.builds(Circle, positions, radii_m), boxes, polygons, multipolygons)

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(
    lambda text: text not in ("here", "me") and text.strip() != ""
)
offsets_m = st.floats(-1e6, 1e6)
moving_shapes = st.one_of(
    st.builds(MovingCircle, st.floats(0, 1e6), offsets_m, offsets_m),
    st.builds(MovingCircle, st.floats(0, 1e6)),
    st.builds(
        lambda width, height, east, north: moving_box(width, height, (east, north)),
        st.floats(1, 1e5),
        st.floats(1, 1e5),
        offsets_m,
        offsets_m,
    ),
)
anchors = names.filter(lambda text: not text.startswith("~"))
areas: st.SearchStrategy[Area] = st.one_of(
    fixed_areas,
    st.builds(Around, anchors, moving_shapes),
    st.builds(Around, st.just("me"), moving_shapes),
    st.builds(PlaceArea, names, st.one_of(st.none(), names)),
    st.builds(PlaceHere, names),
)


def wrapped(lon: float) -> float:
    """The same meridian between -180 and 180."""
    return max(-180.0, min(180.0, math.remainder(lon, 360.0)))
