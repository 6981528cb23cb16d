"""Topic rules: the first rule that applies to a request decides.

For subscribing, a deny rule applies to every filter that overlaps its patterns, and an allow rule
only to filters that one of its patterns covers: a subscriber may receive every topic that its
filter matches.
"""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from nearcast.broker.auth.identities import IpAddress
from nearcast.broker.auth.rules.people_rules import PeopleRule
from nearcast.broker.auth.rules.topic_patterns import (
    Levels,
    TopicPattern,
    covers,
    filled,
    levels_of,
    like,
    overlaps,
)
from nearcast.core.model.inputs import RulesSet

Action = Literal["publish", "subscribe", "connect"]
ClientKind = Literal["all", "anonymous", "superuser", "user", "node", "address"]
Values = Mapping[str, str | None]
_WILD = ("+", "#")


class Principal(Struct, frozen=True, gc=False):
    """A client as seen by rules."""

    user: str | None
    superuser: bool
    node: str
    client: str
    address: IpAddress | None

    def values(self) -> Values:
        """Return the values of placeholders."""
        return {"user": self.user, "node": self.node, "client": self.client}


class PrincipalCondition(Struct, frozen=True):
    """A condition on the clients that a rule applies to."""

    kind: ClientKind
    name: str = ""
    network: IPv4Network | IPv6Network | None = None

    def is_(self, visitor: Principal) -> bool:
        """Return whether it matches; superusers match only `superuser` or their user name."""
        if self.kind == "superuser":
            return visitor.superuser
        if self.kind == "user":
            return visitor.user == self.name
        if visitor.superuser:
            return False
        if self.kind == "anonymous":
            return visitor.user is None
        if self.kind == "node":
            return like(tuple(self.name.split("*")), visitor.node)
        if self.network is not None:
            # An address of the other IP version is in no network of this one.
            return visitor.address is not None and visitor.address in self.network
        return True


class Clause(Struct, frozen=True):
    """A rule applied to one client; `patterns` None means all topics."""

    allow: bool
    patterns: tuple[Levels, ...] | None = None
    literals: frozenset[Levels] = frozenset()
    qos: frozenset[int] | None = None
    retain: bool | None = None

    def bears_on(self, levels: Levels) -> bool:
        """Return whether it applies to a topic or filter with these levels."""
        if self.patterns is None or levels in self.literals:
            return True
        test = covers if self.allow else overlaps
        head = levels[0]
        for pattern in self.patterns:
            # Most patterns differ in the first level; only the others are compared in full.
            if pattern[0] != head and pattern[0] not in _WILD and head not in _WILD:
                continue
            if test(pattern, levels):
                return True
        return False

    def grants(self, levels: Levels) -> bool:
        """Return whether it allows a topic by a pattern that spells out its first two levels."""
        return self.allow and self.spells_out(levels, 2)

    def spells_out(self, levels: Levels, count: int) -> bool:
        """Return whether a pattern that covers a topic spells out so many of its first levels."""
        named = (pattern for pattern in self.patterns or () if pattern[:count] == levels[:count])
        return levels in self.literals or any(covers(pattern, levels) for pattern in named)

    def holds_for(self, qos: int, retain: bool) -> bool:
        """Return whether its conditions on QoS and retain are met."""
        return (self.qos is None or qos in self.qos) and self.retain in (None, retain)


class TopicRule(Struct, frozen=True):
    """One rule of the file; without `topics` it applies to all of them."""

    allow: bool
    who: tuple[PrincipalCondition, ...]
    actions: frozenset[Action]
    topics: tuple[TopicPattern, ...] | None = None
    nodes: tuple[str, ...] | None = None
    qos: frozenset[int] | None = None
    retain: bool | None = None
    _same: Clause | None = None

    def __post_init__(self) -> None:
        # Rules without placeholders are the same for all clients: these share one clause.
        if not any(topic.has_placeholder for topic in self.topics or ()):
            force_setattr(self, "_same", self._clause({}))

    def is_about(self, visitor: Principal) -> bool:
        """Return whether the rule applies to a client."""
        return any(who.is_(visitor) for who in self.who)

    def clause(self, visitor: Principal) -> Clause | None:
        """Return the rule for one client, or None if its names fit into none of the patterns."""
        return self._same or self._clause(visitor.values())

    def names_node(self, visitor: Principal) -> bool:
        """Return whether the client's node is one of the rule's."""
        return self.nodes is None or any(_is_node(node, visitor) for node in self.nodes)

    def _clause(self, values: Values) -> Clause | None:
        if self.topics is None:
            return Clause(self.allow, None, frozenset(), self.qos, self.retain)
        patterns, literals = filled_topics(self.topics, values)
        if not patterns and not literals:
            return None
        return Clause(self.allow, patterns, literals, self.qos, self.retain)


def filled_topics(
    topics: Iterable[TopicPattern], values: Values
) -> tuple[tuple[Levels, ...], frozenset[Levels]]:
    """Return the patterns and literals for a client, without those that cannot be filled."""
    found = [(topic.literal, topic.filled(values)) for topic in topics]
    return (
        tuple(levels_of(text) for literal, text in found if text is not None and not literal),
        frozenset(levels_of(text) for literal, text in found if text is not None and literal),
    )


class Rules(Struct, frozen=True):
    """All rules, in order, and the default if none applies."""

    rules: tuple[TopicRule, ...] = ()
    default_allow: bool = True
    # Who may see what of other nodes; applied by the engine.
    sight: RulesSet = RulesSet()
    _general: tuple[int, ...] = ()
    _by_user: dict[str, tuple[int, ...]] = {}
    # Smallest numbers of people, by topic; the first that fits.
    people: tuple[PeopleRule, ...] = ()

    def __post_init__(self) -> None:
        # All sessions are checked when rules change, and most rules may name users, so index them.
        general: list[int] = []
        by_user: dict[str, list[int]] = {}
        for place, rule in enumerate(self.rules):
            if all(who.kind == "user" for who in rule.who):
                for name in {who.name for who in rule.who}:
                    by_user.setdefault(name, []).append(place)
            else:
                general.append(place)
        force_setattr(self, "_general", tuple(general))
        force_setattr(self, "_by_user", {name: tuple(found) for name, found in by_user.items()})

    def _concerning(self, visitor: Principal) -> Iterator[TopicRule]:
        """Yield in order the rules that do not name other users only."""
        own = () if visitor.user is None else self._by_user.get(visitor.user, ())
        return (self.rules[place] for place in sorted((*self._general, *own)))

    def clauses(self, visitor: Principal, action: Action) -> tuple[Clause, ...]:
        """Return the clauses for a client and an action, in order."""
        parts = (
            rule.clause(visitor)
            for rule in self._concerning(visitor)
            if action in rule.actions and rule.is_about(visitor)
        )
        return tuple(one for one in parts if one is not None)

    def may_connect(self, visitor: Principal) -> bool | None:
        """Return whether a client may connect as its node; None if no rule applies."""
        for rule in self._concerning(visitor):
            if "connect" in rule.actions and rule.is_about(visitor) and rule.names_node(visitor):
                return rule.allow
        return None


def _is_node(pattern: str, visitor: Principal) -> bool:
    parts: list[str] = []
    for part in pattern.split("*"):
        text = filled(part, visitor.values())
        if text is None:
            return False
        parts.append(text)
    return like(tuple(parts), visitor.node)
