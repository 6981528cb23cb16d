import pytest

from nearcast.core.proximity.discovery.event_type import EventType, Order, event_type
from nearcast.core.proximity.errors import EventTypeError

LIGHT = event_type("traffic/light", {"approach": str, "green": bool, "at": "position"})


def test_an_event_of_its_type_is_accepted() -> None:
    LIGHT.check({"approach": "north", "green": True, "at": [-6.26, 53.35]})


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"approach": "north", "green": True}, "needs 'at'"),
        ({"approach": "north", "green": 1, "at": [0, 0]}, "'green' of 'traffic/light' is a bool"),
        ({"approach": 7, "green": True, "at": [0, 0]}, "is a text, not 7"),
        ({"approach": "n", "green": True, "at": [0, 91]}, "is a position"),
        ({"approach": "n", "green": True, "at": [0, 0], "aproach": 1}, "did you mean approach"),
    ],
)
def test_an_event_of_another_type_is_refused(attributes: dict[str, object], reason: str) -> None:
    with pytest.raises(EventTypeError, match=reason):
        LIGHT.check(attributes)  # type: ignore[arg-type]


def test_a_whole_number_is_a_number_but_true_is_none() -> None:
    speed = event_type("speed", {"mps": float})
    speed.check({"mps": 3})
    with pytest.raises(EventTypeError):
        speed.check({"mps": True})


def test_a_type_without_content_accepts_anything() -> None:
    event_type("chat").check({"text": "hello", "more": [1, 2]})


def test_the_description_does_not_depend_on_the_order_of_parameters() -> None:
    assert event_type("a", {"x": int, "y": str}) == event_type("a", {"y": str, "x": int})
    assert event_type("a", {"x": int, "y": str}).text == "a(x:integer,y:text)"


@pytest.mark.parametrize(
    ("validity", "deadline", "priority", "order"),
    [
        (0.0, None, 1, "none"),
        (float("nan"), None, 1, "none"),
        (None, -1.0, 1, "none"),
        (None, None, 0, "none"),
        (None, None, 10, "none"),
        (None, None, 1, "total"),
    ],
)
def test_attributes_out_of_range_are_refused(
    validity: float | None, deadline: float | None, priority: int, order: Order
) -> None:
    with pytest.raises(EventTypeError):
        EventType("a", None, validity, priority, deadline, order)


@pytest.mark.parametrize("subject", ["", "a/#", "$me/position"])
def test_a_subject_that_cannot_be_published_is_refused(subject: str) -> None:
    with pytest.raises(EventTypeError):
        event_type(subject)


def test_a_kind_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(EventTypeError, match="did you mean boolean"):
        event_type("a", {"x": "bolean"})


def test_what_is_neither_true_nor_in_time_any_more_has_lived() -> None:
    assert event_type("a", validity=60, deadline=2).lifetime_s(5) == 2
    assert event_type("a").lifetime_s(5) == 5
