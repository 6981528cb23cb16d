"""The search for failing cases: it finds planted faults, reduces them, and repeats itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random

import pytest

from tests.support.fuzzing.fuzz_target import FuzzError, FuzzTarget, check_cases, reduce, search

NONE: dict[str, str] = {}


class Planted(FuzzTarget[str]):
    """Fails for texts with an x before a y, in another way for texts with a z."""

    name = "planted"
    suite_cases = 0
    examples = NONE

    def __init__(self) -> None:
        self.is_open = False

    @contextmanager
    def opened(self) -> Iterator[None]:
        self.is_open = True
        yield
        self.is_open = False

    def generate(self, random: Random) -> str:
        return "".join(random.choices("abcdexyz", k=12))

    def check(self, case: str) -> None:
        assert self.is_open
        if "z" in case:
            raise KeyError(case)
        if "x" in case and "y" in case[case.index("x") :]:
            raise ValueError(case)


def test_a_planted_fault_is_found_and_reduced_to_what_it_needs() -> None:
    target = Planted()
    with target.opened():
        failure = search(target, 1, count())
    assert failure is not None
    assert failure.case in ("z", "xy")
    assert target.case(1, failure.number) != failure.case


def test_reducing_keeps_the_same_fault() -> None:
    target = Planted()
    with target.opened():
        with pytest.raises(ValueError, match="aaxbbycc") as caught:
            target.check("aaxbbycc")
        reduced, error = reduce(target, "aaxbbycc", caught.value)
    assert reduced == "xy"
    assert str(error) == "xy"


def test_a_failure_tells_its_seed_and_its_reduced_case() -> None:
    with pytest.raises(FuzzError, match=r"(?s)TARGET=planted SEED=5 CASE=\d+.*'(z|xy)'"):
        check_cases(Planted(), seed=5, cases=100)


def test_the_same_seed_and_number_give_the_same_case() -> None:
    target = Planted()
    assert target.case(3, 7) == target.case(3, 7)
    assert target.case(3, 7) != target.case(3, 8)
    assert target.case(3, 7) != target.case(4, 7)


def test_the_search_ends_when_it_is_told_to() -> None:
    seen: list[int] = []

    def stop_at_three(number: int) -> bool:
        seen.append(number)
        return number < 3

    class Faultless(Planted):
        def check(self, case: str) -> None:
            assert case

    assert search(Faultless(), 1, count(), stop_at_three) is None
    assert seen == [0, 1, 2, 3]
