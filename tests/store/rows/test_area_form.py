"""The stored form of areas: boxes stay as every release wrote them."""

from nearcast.broker.situation.nc_properties import (
    named_subscription_from_json,
    subscription_options,
    subscription_options_from_texts,
)
from nearcast.core.model import Box, Position, area_json, parse_area
from nearcast.core.model.geometry.area import Circle
from nearcast.store.rows.area_form import area_from_store, stored_area

PACIFIC = Box(-10.0, 170.0, 10.0, -170.0)


def test_boxes_are_as_in_geojson_to_users_and_as_ever_in_the_store() -> None:
    assert area_json(PACIFIC) == {"bbox": [170.0, -10.0, -170.0, 10.0]}
    assert parse_area({"bbox": [170, -10, -170, 10]}) == PACIFIC
    assert stored_area(PACIFIC) == {"bbox": [-10.0, 170.0, 10.0, -170.0]}
    assert area_from_store(stored_area(PACIFIC)) == PACIFIC


def test_other_areas_are_stored_as_their_json() -> None:
    area = Circle(Position(53.0, -6.0), 500.0)
    assert stored_area(area) == area_json(area)
    assert area_from_store(area_json(area)) == area


def test_a_subscription_that_an_earlier_release_kept_is_read_as_it_was_meant() -> None:
    kept = (("from", '{"bbox": [-10, 170, 10, -170]}'), ("meta", "1.0"))
    assert subscription_options_from_texts(kept).from_ == PACIFIC


def test_a_subscription_in_either_form_is_kept_so_that_it_is_the_same_again() -> None:
    said = '{"bbox": [170, -10, -170, 10]}'
    for wish in (
        subscription_options((("nc-from", said),)),
        named_subscription_from_json(f'{{"subject": "a", "from": {said}}}'.encode()).options,
    ):
        assert wish.from_ == PACIFIC
        assert subscription_options_from_texts(wish.texts).from_ == PACIFIC
