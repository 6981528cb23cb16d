"""Detects names in double quotes where a value is likely meant: `delay = "4"`, `kind = "bus"`.

In CQL2 double quotes enclose a property's name and single quotes enclose text, so such a filter is
valid, and compares two attributes. The author hardly intends that.
"""

import re

from nearcast.core.language.ast import COMPARISONS
from nearcast.core.language.forms.tokens import RESERVED, WORD

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def likely_values(text: str) -> list[str]:
    """Return the names in double quotes of a CQL2 text that look like values.

    Names after a comparison operator or BETWEEN and in lists of IN are examined. A number always
    counts; a name that needs no quotes counts unless the left operand is quoted (not checked for
    IN).
    """
    if text.lstrip().startswith("{"):
        return []
    tokens = [(str(m.lastgroup), m.group()) for m in WORD.finditer(text) if m.lastgroup != "space"]
    found: list[str] = []
    in_list = False
    for place, (kind, word) in enumerate(tokens):
        before = tokens[place - 1][1] if place else ""
        if word == "(" and before.upper() == "IN":
            in_list = True
        elif word == ")":
            in_list = False
        if kind != "quoted" or not (in_list or _takes_value(before)):
            continue
        name = word[1:-1].replace('""', '"')
        left = tokens[place - 2][0] if place > 1 and not in_list else ""
        if (_is_number(name) or (left != "quoted" and _needs_no_quotes(name))) and (
            name not in found
        ):
            found.append(name)
    return found


def advice_on(name: str) -> str:
    """Return advice on how to write a value that is in double quotes."""
    number = f"a number takes none: {name}; " if _is_number(name) else ""
    return (
        f'"{name}" in double quotes is an attribute\'s name; {number}'
        f"text takes single quotes: '{name}'"
    )


def _takes_value(word: str) -> bool:
    return word in (*COMPARISONS, "!=") or word.upper() == "BETWEEN"


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _needs_no_quotes(name: str) -> bool:
    return bool(_PLAIN_NAME.fullmatch(name)) and name.upper() not in RESERVED
