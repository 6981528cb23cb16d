"""Subjects of events, as MQTT topic names, and the patterns that select them.

Levels are separated by `/`; in a pattern `+` stands for one level and a last `#` for the level
above it and everything below. Wildcards at the start never match subjects that begin with `$`.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import shown

LONGEST_SUBJECT_BYTES = 65_535
MOST_KNOWN = 65_536
MOST_LEVELS_COMPILED = 16
"""Patterns with more levels are not turned into regular expressions, which takes long."""
_ONE_LEVEL = "[^/]*"


def check_subject(name: str) -> str:
    """Return a subject that events can have, or raise `ModelError`."""
    _check_text(name, "subject")
    for wildcard in "+#":
        if wildcard in name:
            raise ModelError(
                f"subject {shown(name)} has the wildcard {wildcard}; only patterns to subscribe "
                "to may have one"
            )
    return name


def check_pattern(pattern: str) -> str:
    """Return a pattern that can be subscribed to, or raise `ModelError`."""
    _check_text(pattern, "pattern")
    levels = pattern.split("/")
    for at, level in enumerate(levels):
        if "#" in level and (level != "#" or at != len(levels) - 1):
            raise ModelError(
                f"pattern {shown(pattern)}: # must be the whole last level, as in traffic/#"
            )
        if "+" in level and level != "+":
            raise ModelError(
                f"pattern {shown(pattern)}: + must be a whole level, as in traffic/+/speed"
            )
    return pattern


def subject_matches(pattern: str, subject: str) -> bool:
    """Return whether a checked pattern matches a checked subject."""
    if subject.startswith("$") and pattern[:1] in ("+", "#"):
        return False
    wanted, levels = pattern.split("/"), subject.split("/")
    for at, level in enumerate(wanted):
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
        # `a/#` matches `a` too: only a # may be left when the subject ends.
        if at == len(levels) - 1 and wanted[at + 1 :] == ["#"]:
            return True
    return len(wanted) == len(levels)


def subject_test(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a checked pattern matches a subject, for many of them."""
    above = pattern[:-1]
    if "+" in pattern:
        return partial(subject_matches, pattern)
    if pattern == "#":
        return lambda subject: not subject.startswith("$")
    if pattern.endswith("#"):
        return lambda subject: subject.startswith(above) or subject == above[:-1]
    return pattern.__eq__


def which_match(pattern: str, subjects: Sequence[str]) -> list[bool]:
    """Return for each of very many subjects whether a checked pattern matches it."""
    levels = pattern.split("/", MOST_LEVELS_COMPILED)
    if len(levels) > MOST_LEVELS_COMPILED or ("+" not in pattern and "#" not in pattern):
        return list(map(subject_test(pattern), subjects))
    parts = [_ONE_LEVEL if level == "+" else re.escape(level) for level in levels]
    text = "/".join(parts) + r"\Z"
    if levels[-1] == "#":
        text = "/".join(parts[:-1]) + (r"(?:/|\Z)" if levels[1:] else "")
    matches = re.compile(rf"(?!\$){text}" if levels[0] in ("+", "#") else text).match
    return [each is not None for each in map(matches, subjects)]


class SubjectRules:
    """Patterns with answers: the first that matches a subject decides; False if none does."""

    def __init__(self, rules: Sequence[tuple[str, bool]]) -> None:
        self._rules = tuple(rules)
        self.is_empty = not self._rules
        """No subject fits."""
        self._known: dict[str, bool] = {}

    def fits(self, subject: str) -> bool:
        """The answer for a subject; cached, because few subjects carry most events."""
        if not self._rules:
            return False
        answer = self._known.get(subject)
        if answer is None:
            fit = (answer for pattern, answer in self._rules if subject_matches(pattern, subject))
            answer = next(fit, False)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[subject] = answer
        return answer


def _check_text(text: object, what: str) -> None:
    if not isinstance(text, str) or not text:
        raise ModelError(f"a {what} is text of at least one character, not {shown(text)}")
    if "\x00" in text:
        raise ModelError(f"{what} {shown(text)} holds a NUL character, which MQTT forbids")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ModelError(f"{what} {shown(text)} cannot be written as UTF-8") from None
    if size > LONGEST_SUBJECT_BYTES:
        raise ModelError(f"a {what} is at most {LONGEST_SUBJECT_BYTES} bytes, not {size}")
