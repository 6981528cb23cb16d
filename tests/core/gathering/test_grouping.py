"""Which group an event belongs to, and on which subject its aggregates go out."""

import pytest

from nearcast.core.gathering import GroupKey, cell_of, group_of, parse_rule, subject_of
from nearcast.core.gathering.grouping import PlaceMiddles
from nearcast.core.model import Circle, Position
from nearcast.core.model.geometry.places import Places

HERE = Position(53.35, -6.26)


@pytest.fixture
def known() -> PlaceMiddles:
    places = Places()
    places.add("city", "Dublin", Circle(HERE, 10_000.0))
    places.add("pub", "Joe's", Circle(HERE, 50.0), "Dublin")
    return PlaceMiddles(places)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("volume 5", GroupKey("subject:spots/a")),
        ("volume 5 per place", GroupKey("place:pub/Joe's, Dublin", HERE)),
        ("volume 5 per place city", GroupKey("place:city/Dublin", HERE)),
        ("volume 5 per place park", None),
        (
            "volume 5 per cell 500",
            GroupKey("cell:500:31861:23171", cell_of(HERE.lat, HERE.lon, 500.0).centre),
        ),
    ],
)
def test_a_group_is_what_its_parts_have_in_common(
    known: PlaceMiddles, text: str, expected: GroupKey | None
) -> None:
    rule = parse_rule("spots/#", text)
    assert group_of(rule, "spots/a", HERE.lat, HERE.lon, known) == expected


def test_an_event_without_a_position_is_in_no_place(known: PlaceMiddles) -> None:
    for text in ("volume 5 per place", "volume 5 per cell 500"):
        assert group_of(parse_rule("a", text), "a", None, None, known) is None
    assert group_of(parse_rule("a", "volume 5"), "a", None, None, known) is not None


@pytest.mark.parametrize(
    ("pattern", "group", "subject"),
    [
        ("spots/#", "subject:spots/a", "spots/a"),
        ("spots/#", "place:pub/Joe's", "spots"),
        ("a/b/+/c", "cell:500:1:2", "a/b"),
        ("a/b", "cell:500:1:2", "a/b"),
        ("#", "cell:500:1:2", "aggregates"),
        ("+/b", "place:pub/Joe's", "aggregates"),
    ],
)
def test_aggregates_go_out_on_their_own_subject_or_what_all_begin_with(
    pattern: str, group: str, subject: str
) -> None:
    assert subject_of(pattern, group) == subject
