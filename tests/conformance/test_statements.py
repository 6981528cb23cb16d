"""Every numbered statement has a test that is named by it, or a reason why not."""

import re
from pathlib import Path

from tests.conformance.statements import (
    LAST,
    NEVER_GIVEN,
    NOT_A_SERVERS,
    NOT_TESTABLE,
    SERVERS,
)

_TEST = re.compile(r"^def (test_mqtt_\w+)\(", re.MULTILINE)
_NUMBER = re.compile(r"(?:test_mqtt|_and)_(\d+(?:_\d+)+)")


def numbers_in_names() -> set[str]:
    """The numbers in the names of all tests."""
    found = set()
    for file in Path(__file__).parent.glob("test_*.py"):
        for name in _TEST.findall(file.read_text()):
            for number in _NUMBER.findall(name):
                chapter, _, last = number.rpartition("_")
                found.add(f"{chapter.replace('_', '.')}-{last}")
    return found


def test_every_statement_is_listed_once() -> None:
    numbers = {f"{chapter}-{n}" for chapter, last in LAST.items() for n in range(1, last + 1)}
    listed = [*SERVERS, *NOT_A_SERVERS, *NOT_TESTABLE]
    assert len(listed) == len(set(listed))
    assert set(listed) == numbers - NEVER_GIVEN


def test_every_statement_for_servers_has_a_test() -> None:
    assert set(SERVERS) - numbers_in_names() == set()


def test_no_test_is_named_by_a_statement_that_is_not_for_servers() -> None:
    assert numbers_in_names() - set(SERVERS) == set()
