import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.model import ModelError, Position, parse_position, position_from_json
from nearcast.core.model.geometry.position import (
    checked,
    parse_number,
    position,
    shown,
    usual_position,
)
from tests.support.plain.model_strategies import positions


@given(positions)
def test_a_position_survives_text_and_json(here: Position) -> None:
    assert parse_position(f"{here.lat!r},{here.lon!r}") == here
    assert position_from_json([here.lon, here.lat]) == here


@pytest.mark.parametrize(
    ("lat", "lon", "message"),
    [
        (91, 0, "latitude 91 is beyond 90"),
        (-90.0001, 0, "latitude -90.0001 is beyond 90"),
        (-122.4, 37.8, r"swapped\? \(37.8, -122.4\)"),
        (0, 181, "longitude 181 is beyond 180"),
        (math.nan, 0, "latitude nan is not a finite number"),
        (0, math.inf, "longitude inf is not a finite number"),
        (True, 0, "latitude True is not a number"),
        ("53", 0, "latitude '53' is not a number"),
        (0, None, "longitude None is not a number"),
        (10**400, 0, "not a finite number"),
    ],
)
def test_what_is_not_on_earth_is_refused_with_a_reason(
    lat: object, lon: object, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        position(lat, lon)


@pytest.mark.parametrize("text", ["", "53.3", "53.3,-6.2,10", "53.3 -6.2", "53.3,", "1_0,2", "٥,2"])
def test_text_that_is_not_two_numbers_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="number"):
        parse_position(text)


@pytest.mark.parametrize("value", [[], [1], [1, 2, 3], "12", {"lat": 1}, None, [None, 1]])
def test_json_that_is_not_two_numbers_is_refused(value: object) -> None:
    with pytest.raises(ModelError, match="number"):
        position_from_json(value)


def test_distances_between_positions_are_in_metres() -> None:
    assert Position(0, 0).distance_m(Position(0, 1)) == pytest.approx(111_319.49, rel=1e-5)


@given(
    st.one_of(
        st.text("0123456789.-+eE_, \t\u0665naif", max_size=12),
        st.builds("{!r},{!r}".format, st.floats(), st.floats()),
    )
)
def test_text_is_read_as_its_two_numbers_are(text: str) -> None:
    def slowly() -> Position:
        lat, lon = text.split(",")
        return position(parse_number(lat, "latitude"), parse_number(lon, "longitude"))

    usual = usual_position(text.encode())
    try:
        wanted = slowly()
    except (ModelError, ValueError):
        with pytest.raises(ModelError):
            parse_position(text)
        assert usual is None
    else:
        assert parse_position(text) == wanted
        assert usual in (wanted, None)


@given(positions)
def test_most_positions_are_usual(here: Position) -> None:
    for written in (f"{here.lat},{here.lon}", f" {here.lat}, {here.lon}\n"):
        assert usual_position(written.encode()) == parse_position(written)


@given(st.one_of(st.floats(), st.integers()), st.one_of(st.floats(), st.integers()))
def test_a_position_that_somebody_made_is_checked(lat: float, lon: float) -> None:
    try:
        wanted = position(lat, lon)
    except ModelError as error:
        with pytest.raises(ModelError, match=re.escape(str(error))):
            checked(Position(lat, lon))
    else:
        assert checked(Position(lat, lon)) == wanted


def test_a_value_nested_as_deep_as_python_goes_is_shown() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    assert shown(value) == "a list that is nested too deeply"
    while value:  # or freeing it would recurse as deep
        value = value.pop()  # type: ignore[assignment]
