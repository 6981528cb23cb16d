import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.matching.index.globe_grid import (
    CLASSES,
    REACH_M,
    WIDE,
    cells_within,
    class_of,
    code_of,
    columns_per_row,
)
from nearcast.core.model.geometry.geodesy import distance_m

COLUMNS = columns_per_row()
latitudes = st.floats(-90, 90) | st.sampled_from((90.0, -90.0, 89.9999, -89.99, 0.0))
longitudes = st.floats(-180, 180) | st.sampled_from((180.0, -180.0, 179.9999))


def test_a_class_serves_every_reach_up_to_its_own() -> None:
    for c in range(CLASSES):
        assert class_of(float(REACH_M[c])) == c
        assert class_of(float(REACH_M[c]) * 1.0001) == c + 1
    assert class_of(2e7) == WIDE


@given(latitudes, longitudes, st.floats(0, 2 * math.pi), st.floats(0, 1), st.integers(0, 17))
def test_whatever_is_within_reach_lies_in_a_cell_that_is_looked_at(
    lat: float, lon: float, direction: float, share: float, c: int
) -> None:
    reach_m = float(REACH_M[c])
    # Somewhere near: a step on the sphere, which need not be exact, only within reach.
    step = share * reach_m / 6_371_000.0
    sine = math.sin(math.radians(lat)) * math.cos(step)
    sine += math.cos(math.radians(lat)) * math.sin(step) * math.cos(direction)
    there_lat = math.degrees(math.asin(max(-1.0, min(1.0, sine))))
    turn = math.atan2(
        math.sin(direction) * math.sin(step) * math.cos(math.radians(lat)),
        math.cos(step) - math.sin(math.radians(lat)) * sine,
    )
    there_lon = (lon + math.degrees(turn) + 180.0) % 360.0 - 180.0
    if distance_m(lat, lon, there_lat, there_lon) > reach_m:
        return
    codes = np.zeros(4096, np.int64)
    count = cells_within(COLUMNS, c, lat, lon, reach_m, codes, len(codes))
    assert 0 < count <= 128
    assert code_of(COLUMNS, c, there_lat, there_lon) in codes[:count]
