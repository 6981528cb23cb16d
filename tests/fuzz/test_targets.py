"""Every fuzz target, with a fixed seed and with the cases that failed once.

`make fuzz` tries fresh seeds for minutes; what it finds is kept among the examples of its target.
"""

from typing import Any

import pytest

from tests.fuzz.fuzz_targets import TARGETS
from tests.support.fuzzing.fuzz_target import FuzzTarget, check_cases

EXAMPLES = [(name, example) for name, target in TARGETS.items() for example in target.examples]


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_no_case_of_a_fixed_seed_fails(target: FuzzTarget[Any]) -> None:
    check_cases(target, seed=1, cases=target.suite_cases)


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_what_failed_once_is_treated_well(name: str, example: str) -> None:
    target = TARGETS[name]
    with target.opened():
        target.check(target.examples[example])
