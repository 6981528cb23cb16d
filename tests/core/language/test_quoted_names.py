"""Double quotes where single ones are meant."""

import pytest

from nearcast.core.language import parse
from nearcast.core.language.quoted_names import likely_values


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('delay = "4"', ["4"]),
        ('"delay" = "4"', ["4"]),
        ('delay > "4.5" AND kind = "bus"', ["4.5", "bus"]),
        ('kind IN ("bus", "tram")', ["bus", "tram"]),
        ('x BETWEEN "1" AND "2"', ["1"]),
        ('"speed" > "limit"', []),
        ('speed > "speed limit"', []),
        ('"speed limit" > 50', []),
        ("kind = 'bus'", []),
        ("kind = 'say \"4\"'", []),
        ('distance(me, event) < 5 AND ("a" = 1)', []),
        ('{"op": "=", "args": [{"property": "delay"}, {"property": "4"}]}', []),
    ],
)
def test_likely_values_are_found(text: str, found: list[str]) -> None:
    parse(text)
    assert likely_values(text) == found
