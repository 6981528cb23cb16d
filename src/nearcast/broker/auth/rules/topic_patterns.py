"""Topic patterns in rules: coverage, overlap, and placeholders for names.

A topic is a pattern without wildcards, so the same two tests serve publishing and subscribing: does
a rule's pattern cover a whole filter, and does it overlap it. Names are decoded before they are
compared.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from nearcast.broker.situation.topic_names import normalize_topic
from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.geometry.position import shown
from nearcast.core.model.subject import check_pattern

Levels = tuple[str, ...]

PLACEHOLDERS = ("node", "user", "client")
EXACTLY = "eq "
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_NOT_PLAIN = re.compile(r"[/+#%\0]")


class TopicPattern(Struct, frozen=True):
    """A pattern in a rule; a `literal` one (`eq …`) is compared literally."""

    text: str
    literal: bool = False

    @property
    def has_placeholder(self) -> bool:
        """Whether the pattern depends on the client."""
        return not self.literal and _PLACEHOLDER.search(self.text) is not None

    def filled(self, values: Mapping[str, str | None]) -> str | None:
        """Return the pattern for a client, or None if its names are not plain."""
        return filled(self.text, values) if self.has_placeholder else self.text


def parse_topic_pattern(text: str) -> TopicPattern:
    """Return the topic pattern in a rule, or raise `ModelError`."""
    if text.startswith(EXACTLY):
        return TopicPattern(check_pattern(text.removeprefix(EXACTLY)), literal=True)
    check_placeholders(text, PLACEHOLDERS)
    check_pattern(_PLACEHOLDER.sub("x", text))
    if text.startswith("$share/"):
        raise ModelError(
            f"pattern {shown(text)}: shared subscriptions are judged by what follows the group; "
            "leave $share/GROUP/ out"
        )
    return TopicPattern(text)


def check_placeholders(text: str, known: tuple[str, ...]) -> None:
    """Raise `ModelError` if text has an unknown placeholder."""
    for name in _PLACEHOLDER.findall(text):
        if name not in known:
            there = " and ".join(f"${{{one}}}" for one in known)
            raise ModelError(
                f"{shown(text)}: ${{{name}}} stands for nothing; there is {there}"
                f"{did_you_mean(name, known)}"
            )


def filled(text: str, values: Mapping[str, str | None]) -> str | None:
    """Return text with placeholders filled, or None if a name is missing or not plain.

    A name with a wildcard, a slash or an escape, or with `$` at the start, would change the meaning
    of the rule.
    """
    names = [values[name] for name in _PLACEHOLDER.findall(text)]
    if not all(name is not None and is_plain(name) for name in names):
        return None
    # In one pass: a name that looks like a placeholder is not filled again.
    return _PLACEHOLDER.sub(lambda found: values[found[1]] or "", text)


def is_plain(name: str) -> bool:
    """Return whether a name has no special meaning as a topic level."""
    return (
        bool(name)
        and _NOT_PLAIN.search(name) is None
        and not name.startswith("$")
        and name == name.strip()
    )


def levels_of(pattern: str) -> Levels:
    """Return the levels of a checked pattern or topic, names in normal form."""
    return tuple(normalize_topic(pattern).split("/"))


def covers(pattern: Levels, other_pattern: Levels) -> bool:
    """Return whether a pattern matches every topic that `other_pattern` matches."""
    if _wild_before_dollar(pattern, other_pattern):
        return False
    for at, level in enumerate(pattern):
        if level == "#":
            return True
        if at == len(other_pattern):
            return False
        if other_pattern[at] == "#":
            # `+/#` matches what `#` does; further down `x/#` matches x itself, `x/+/#` does not.
            return at == 0 and pattern == ("+", "#")
        if level not in ("+", other_pattern[at]):
            return False
    return len(pattern) == len(other_pattern)


def overlaps(pattern: Levels, other_pattern: Levels) -> bool:
    """Return whether there can be a topic that both match."""
    if _wild_before_dollar(pattern, other_pattern) or _wild_before_dollar(other_pattern, pattern):
        return False
    for one, other in zip(pattern, other_pattern, strict=False):
        if "#" in (one, other):
            return True
        if one != other and "+" not in (one, other):
            return False
    if len(pattern) == len(other_pattern):
        return True
    shorter = min(len(pattern), len(other_pattern))
    return (pattern[shorter:] or other_pattern[shorter:]) == ("#",)


def _wild_before_dollar(pattern: Levels, other_pattern: Levels) -> bool:
    return pattern[0] in ("+", "#") and other_pattern[0].startswith("$")


def like(parts: tuple[str, ...], text: str) -> bool:
    """Return whether text matches a pattern, given as its parts between the `*`."""
    if len(parts) == 1:
        return text == parts[0]
    first, *middle, last = parts
    at, end = len(first), len(text) - len(last)
    if end < at or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
