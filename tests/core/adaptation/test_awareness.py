"""Classes of awareness: intervals, hysteresis and the context space."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.adaptation.awareness import (
    AwarenessModule,
    checked_awareness,
    default_awareness,
    number_at,
)
from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.priority_matrix import checked_matrix

BATTERY = {"attribute": "battery", "intervals": [[None, 20], [20, 50], [50, None]]}
NETWORK = {
    "measure": "throughput_kbps",
    "intervals": [[0, 1250], [1250, 2500], [2500, None]],
    "hysteresis": 100,
}


def test_intervals_hold_their_upper_end() -> None:
    (module,) = checked_awareness({"modules": {"battery": BATTERY}}, 3).modules
    assert [module.classify(value) for value in (-5, 20, 20.1, 50, 51)] == [1, 1, 2, 2, 3]


def test_hysteresis_keeps_a_class_near_its_border() -> None:
    module = AwarenessModule("n", measure="m", bounds=(1250.0, 2500.0), hysteresis=100.0)
    assert module.classify(1300, before=1) == 1
    assert module.classify(1351, before=1) == 2
    assert module.classify(1200, before=2) == 2
    assert module.classify(1150, before=2) == 1
    # From the worst to near the second border: at least the second class.
    assert module.classify(2550, before=1) == 2


@given(st.floats(-1e4, 1e4), st.integers(1, 3), st.floats(0, 500))
def test_a_class_lies_between_the_old_and_the_exact_one(
    value: float, before: int, hysteresis: float
) -> None:
    module = AwarenessModule("n", measure="m", bounds=(1250.0, 2500.0), hysteresis=hysteresis)
    exact, found = module.classify(value), module.classify(value, before)
    assert min(exact, before) <= found <= max(exact, before)


def test_an_attribute_beyond_all_numbers_is_none() -> None:
    assert number_at({"battery": 10**400}, "battery") is None


def test_the_worst_class_counts_and_modules_without_a_number_do_not() -> None:
    awareness = checked_awareness({"modules": {"battery": BATTERY, "network": NETWORK}}, 3)
    assert awareness.context_class({"battery": 2, "network": 3}) == 2
    assert awareness.context_class({"network": 3}) == 3
    assert awareness.context_class({}) == 3
    assert awareness.attributes == {"battery"}


def test_a_space_maps_classes_in_the_order_of_modules() -> None:
    space = [[1, 1, 2], [1, 2, 3], [2, 3, 3]]
    document = {"modules": {"battery": BATTERY, "network": NETWORK}, "space": space}
    awareness = checked_awareness(document, 3)
    assert awareness.context_class({"battery": 1, "network": 3}) == 2
    assert awareness.context_class({"battery": 3, "network": 1}) == 2
    assert awareness.context_class({"battery": 2}) == 3


def test_seed_c_classes_bandwidth_without_a_policy() -> None:
    (module,) = default_awareness(3).modules
    assert [module.classify(kbps) for kbps in (195.6, 1250, 1251, 3750)] == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "at least one module"),
        ({"modules": {"b": BATTERY}, "spaces": 1}, "spaces"),
        ({"modules": {"b": {**BATTERY, "intervals": [[None, 20], [20, None]]}}}, "3 intervals"),
        ({"modules": {"b": {**BATTERY, "intervals": [[0, 20], [10, 50], [50, 60]]}}}, "overlap"),
        ({"modules": {"b": {**BATTERY, "intervals": [[0, 20], [30, 50], [50, 60]]}}}, "gap"),
        ({"modules": {"b": {**BATTERY, "intervals": [[20, 0], [20, 50], [50, 60]]}}}, "low < high"),
        ({"modules": {"b": {**BATTERY, "measure": "x"}}}, "either"),
        ({"modules": {"b": {**BATTERY, "hysteresis": -1}}}, "hysteresis"),
        ({"modules": {"b": {**BATTERY, "unit": "%"}}}, "unit"),
        ({"modules": {"b": BATTERY}, "space": [1, 2]}, "nested"),
        ({"modules": {"b": BATTERY}, "space": [1, 2, 4]}, "1 .worst. to 3"),
        ({"modules": {"b": 5}}, "object"),
    ],
)
def test_wrong_policies_say_what_is_right(document: dict[str, Any], problem: str) -> None:
    with pytest.raises(AdaptationError, match=problem):
        checked_awareness(document, 3)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([[1, 1, 1]], "3 rows"),
        ([[1, 1, 1], [1, 1], [1, 1, 1]], "Row 2"),
        ([[1, 1, 1], [1, 0, 1], [1, 1, 1]], "Row 2, level 2"),
        ([[1, 1, 1], [1, 1, 1], [1, 1, 1.5]], "Row 3, level 3"),
        ("delay", "3 rows"),
    ],
)
def test_a_matrix_with_holes_is_refused(rows: object, problem: str) -> None:
    with pytest.raises(AdaptationError, match=problem):
        checked_matrix(rows, 3)


def test_numbers_are_found_by_dotted_names() -> None:
    context: dict[str, object] = {"phone": {"battery": 40}, "on": True}
    assert number_at(context, "phone.battery") == 40.0
    assert number_at(context, "phone") is None
    assert number_at(context, "on") is None
    assert number_at(context, "phone.battery.level") is None
