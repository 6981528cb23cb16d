"""Places named by rules: changing one changes the meaning of the rules.

A sight rule names the place that a node is in, and the places above it that make its name unique. A
topic rule names the places whose kind its pattern spells out: `$place/hospital/#`.
"""

from collections.abc import Iterable, Iterator

from nearcast.broker.auth.rules.topic_patterns import levels_of
from nearcast.broker.auth.rules.topic_rules import Rules
from nearcast.broker.situation.topic_names import decode_name
from nearcast.core.model.geometry.area import PlaceArea

PLACE = "$place"
Pair = tuple[str | None, str | None]
"""A kind and a name; None matches any."""


class ProtectedPlaces:
    """The places named by rules."""

    def __init__(self, rules: Rules) -> None:
        self._pairs = frozenset((*_by_topic(rules), *_by_sight(rules)))

    def has(self, kind: str, name: str) -> bool:
        """Return whether a rule names a place."""
        pairs = self._pairs
        return bool(pairs) and not pairs.isdisjoint(((kind, name), (None, name), (kind, None)))


def _by_topic(rules: Rules) -> Iterator[Pair]:
    for rule in rules.rules:
        for topic in rule.topics or ():
            levels = levels_of(topic.text)
            if levels[0] == PLACE and len(levels) > 1 and (kind := _plain(levels[1])) is not None:
                yield kind, _plain(levels[2]) if len(levels) > 2 else None


def _plain(level: str) -> str | None:
    """The name in a topic level; None for wildcards and placeholders."""
    name = None if level in ("+", "#") else decode_name(level)
    return None if name is None or "${" in name else name


def _by_sight(rules: Rules) -> Iterator[Pair]:
    for rule in rules.sight.rules:
        for who in (rule.viewer, rule.other):
            if isinstance(who.inside, PlaceArea):
                yield from _meant_by(who.inside)


def _meant_by(area: PlaceArea) -> Iterable[Pair]:
    yield area.kind, area.name
    head, comma, above = area.name.rpartition(", ")
    if comma:
        yield area.kind, head
        yield None, above
        yield None, above.partition("/")[2]
