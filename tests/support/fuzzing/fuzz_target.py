"""Fuzz targets and the search for cases that fail.

A target generates cases from a seed, mostly valid ones and mutations of them, and checks each
against an oracle. A case is a sequence (text, bytes, or a tuple of steps), so that a failing one
can be reduced by leaving parts of it out. The same seed and number give the same case.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, islice
from random import Random
from traceback import extract_tb, format_exception
from typing import Generic, TypeVar

from msgspec import Struct

Case = TypeVar("Case", bound=Sequence[object])

REDUCTION_TRIES = 300
"""The most checks that reducing one failing case may take."""


class FuzzTarget(ABC, Generic[Case]):
    """One reader of foreign input, with a generator of cases and an oracle."""

    name: str
    suite_cases: int
    """How many cases the ordinary suite tries."""
    examples: Mapping[str, Case]
    """Cases that failed once, by a name that says what was wrong."""

    @abstractmethod
    def generate(self, random: Random) -> Case:
        """Return a case."""

    @abstractmethod
    def check(self, case: Case) -> None:
        """Raise if the target treats a case wrongly."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold what the checks need, such as a running server."""
        yield

    def case(self, seed: int, number: int) -> Case:
        """Return the case of a seed and a number."""
        return self.generate(Random(f"{self.name} {seed} {number}"))


class Failure(Struct, Generic[Case], frozen=True):
    """A case that failed, reduced, and how to get it again."""

    target: str
    seed: int
    number: int
    case: Case
    error: BaseException

    def __str__(self) -> str:
        where = "".join(format_exception(self.error))
        return (
            f"{where}\n"
            f"Target {self.target}, seed {self.seed}, case {self.number}. To run it again:\n"
            f"    make fuzz TARGET={self.target} SEED={self.seed} CASE={self.number}\n"
            f"Reduced, to be kept among the examples of the target:\n"
            f"    {self.case!r}"
        )


class FuzzError(AssertionError):
    """A target that failed; the text has the seed and the reduced case."""


def search(
    target: FuzzTarget[Case],
    seed: int,
    numbers: Iterable[int],
    checked: Callable[[int], bool] = lambda number: True,
) -> Failure[Case] | None:
    """Check cases until one fails, and return it reduced; None if none does.

    After each case `checked` is called with its number; the search ends when it returns False.
    """
    for number in numbers:
        case = target.case(seed, number)
        error = _problem(target, case)
        if error is not None:
            reduced, error = reduce(target, case, error)
            return Failure(target.name, seed, number, reduced, error)
        if not checked(number):
            return None
    return None


def check_cases(target: FuzzTarget[Case], seed: int, cases: int) -> None:
    """Raise `FuzzError` if one of the first cases of a seed fails."""
    with target.opened():
        failure = search(target, seed, islice(count(), cases))
    if failure is not None:
        raise FuzzError(str(failure)) from failure.error


def reduce(
    target: FuzzTarget[Case], case: Case, error: BaseException, tries: int = REDUCTION_TRIES
) -> tuple[Case, BaseException]:
    """Return the shortest case found that fails at the same place, and its error.

    Parts of the case are left out, large ones first, as long as it still fails.
    """
    place, size = _place(error), max(1, len(case) // 2)
    while tries > 0:
        at, shortened = 0, False
        while at < len(case) and tries > 0:
            tries -= 1
            shorter: Case = case[:at] + case[at + size :]  # type: ignore[operator]
            found = _problem(target, shorter)
            if found is not None and _place(found) == place:
                case, error, shortened = shorter, found, True
            else:
                at += size
        if size > 1:
            size //= 2
        elif not shortened:
            break
    return case, error


def _problem(target: FuzzTarget[Case], case: Case) -> BaseException | None:
    try:
        target.check(case)
    except Exception as error:
        return error
    return None


def _place(error: BaseException) -> tuple[str, str, int | None]:
    """Return where an error was raised, so that reducing does not go on with another one."""
    last = extract_tb(error.__traceback__)[-1]
    return type(error).__name__, last.filename, last.lineno
