"""Permissions of one client under the rules, with cached answers."""

from collections.abc import Collection
from urllib.parse import quote

from msgspec.structs import replace

from nearcast.broker.auth.identities import TokenTopics
from nearcast.broker.auth.rules.protected_places import PLACE, ProtectedPlaces
from nearcast.broker.auth.rules.topic_patterns import (
    Levels,
    levels_of,
    overlaps,
    parse_topic_pattern,
)
from nearcast.broker.auth.rules.topic_rules import Clause, Principal, Rules, filled_topics
from nearcast.core.model.subject_permissions import SubjectClause, SubjectPermissions

MOST_ANSWERS = 128
LONGEST_REMEMBERED = 256
_SHARED = "$share/"


class ActiveRules:
    """The rules in force; `version` grows whenever they are replaced."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.places = ProtectedPlaces(rules)
        self.version = 1

    def replace(self, rules: Rules) -> None:
        """Put other rules in force, also for connected clients."""
        self.rules = rules
        self.places = ProtectedPlaces(rules)
        self.version += 1


class ClientPermissions:
    """The permissions of one client under the rules in force."""

    __slots__ = (
        "_book",
        "_listed",
        "_publish",
        "_remembered",
        "_subscribe",
        "_unrestricted",
        "_version",
        "_visitor",
    )

    def __init__(
        self, book: ActiveRules, visitor: Principal, listed: TokenTopics | None = None
    ) -> None:
        self._book = book
        self._visitor = visitor
        self._listed = listed
        # Created on demand: most clients never ask, and there are many of them.
        self._remembered: dict[str | tuple[str, int, bool], bool] | None = None
        self._renew()

    @property
    def unrestricted(self) -> bool:
        """Whether everything is allowed, so that checks can be skipped."""
        if self._version != self._book.version:
            self._renew()
        return self._unrestricted

    @property
    def remembered(self) -> int:
        """The number of cached answers, at most `MOST_ANSWERS`."""
        return len(self._remembered or ())

    def may_publish(self, topic: str, qos: int = 0, retain: bool = False) -> bool:
        """Return whether a message may be published to a checked topic."""
        if self.unrestricted:
            return True
        key = (topic, qos, retain)
        answer = (self._remembered or {}).get(key)
        if answer is None:
            assert self._publish is not None
            answer = self._decide(self._publish, topic, qos, retain)
            self._remember(key, topic, answer)
        return answer

    def may_subscribe(self, topic_filter: str) -> bool:
        """Return whether a filter may be subscribed to; a shared one counts as its pattern."""
        if self.unrestricted:
            return True
        answer = (self._remembered or {}).get(topic_filter)
        if answer is None:
            assert self._subscribe is not None
            pattern = topic_filter
            if topic_filter.startswith(_SHARED):
                pattern = topic_filter.removeprefix(_SHARED).partition("/")[2]
            answer = self._decide(self._subscribe, pattern, 0, False)
            self._remember(topic_filter, topic_filter, answer)
        return answer

    def readable(self, patterns: Collection[str]) -> SubjectPermissions | None:
        """Return the subjects of these patterns that may be subscribed to; None: all of them.

        Rules for other subjects are left out, so that a change of them does not change the result.
        """
        if self.unrestricted:
            return None
        assert self._subscribe is not None
        return self._subscribe.readable([levels_of(pattern) for pattern in patterns])

    def may_be(self, node: str) -> bool:
        """Return whether rules let the client's user connect as a node; False if anonymous."""
        visitor = self._visitor
        if visitor.user is None:
            return False
        other = replace(visitor, node=node, client=node)
        return self._book.rules.may_connect(other) is True

    def may_change_place(self, kind: str, name: str) -> bool:
        """Return whether a client that may publish to a place's topic may change the place.

        A place named by a rule is for superusers, and for clients that a rule allows by name.
        """
        visitor, book = self._visitor, self._book
        if visitor.superuser or not book.places.has(kind, name):
            return True
        levels = (PLACE, quote(kind, safe=""), quote(name, safe=""))
        return any(clause.grants(levels) for clause in book.rules.clauses(visitor, "publish"))

    def script_rule(self, topic: str) -> bool | None:
        """Return what rules say of placing a script by a `$node/` topic; None: nothing.

        Only a rule that spells out `$node/` allows it: to one that allows all topics, scripts were
        not known. Superusers may what no rule denies them.
        """
        levels = levels_of(topic)
        for clause in self._book.rules.clauses(self._visitor, "publish"):
            if clause.bears_on(levels):
                if not clause.allow:
                    return False
                if clause.spells_out(levels, 1):
                    return True
        return True if self._visitor.superuser else None

    def _decide(self, part: "_Part", topic: str, qos: int, retain: bool) -> bool:
        levels = levels_of(topic)
        if part.listed and not any(one.bears_on(levels) for one in part.listed):
            return False
        for one in part.clauses:
            if one.holds_for(qos, retain) and one.bears_on(levels):
                return one.allow
        return part.default_allow

    def _remember(self, key: str | tuple[str, int, bool], text: str, answer: bool) -> None:
        # Long topics are not cached: a client could make the cache as large as it likes.
        if len(text) > LONGEST_REMEMBERED:
            return
        if self._remembered is None:
            self._remembered = {}
        if len(self._remembered) >= MOST_ANSWERS:
            self._remembered.clear()
        self._remembered[key] = answer

    def _renew(self) -> None:
        self._version = self._book.version
        self._remembered = None
        rules, visitor, listed = self._book.rules, self._visitor, self._listed
        # Superusers are allowed everything that no rule denies them.
        default_allow = rules.default_allow or visitor.superuser
        may_publish = None if listed is None else (*listed.pub, *listed.all)
        may_subscribe = None if listed is None else (*listed.sub, *listed.all)
        publish = _Part(
            rules.clauses(visitor, "publish"), _only(may_publish, visitor), default_allow
        )
        subscribe = _Part(
            rules.clauses(visitor, "subscribe"), _only(may_subscribe, visitor), default_allow
        )
        self._unrestricted = publish.unrestricted and subscribe.unrestricted
        self._publish = None if self._unrestricted else publish
        self._subscribe = None if self._unrestricted else subscribe


class _Part:
    """The clauses for one action."""

    __slots__ = ("clauses", "default_allow", "listed")

    def __init__(
        self, clauses: tuple[Clause, ...], listed: tuple[Clause, ...], default_allow: bool
    ) -> None:
        self.clauses = clauses
        self.listed = listed
        self.default_allow = default_allow

    @property
    def unrestricted(self) -> bool:
        """Whether everything is allowed."""
        denied = any(not one.allow for one in self.clauses)
        return self.default_allow and not denied and not self.listed

    def readable(self, topics: Collection[Levels]) -> SubjectPermissions | None:
        """Return the subjects of these patterns that are allowed; None: all of them."""
        clauses: list[SubjectClause] = []
        for one in self.clauses:
            patterns = _common(one, topics)
            if one.holds_for(0, False) and patterns != ():
                clauses.append(SubjectClause(one.allow, patterns))
        # Trailing clauses that agree with the default are redundant.
        while clauses and clauses[-1].allow is self.default_allow:
            clauses.pop()
        only = _common(self.listed[0], topics) if self.listed else None
        found = SubjectPermissions(tuple(clauses), self.default_allow, only)
        return None if found == SubjectPermissions() else found


def _common(clause: Clause, topics: Collection[Levels]) -> tuple[str, ...] | None:
    """Return the patterns of a clause that overlap the given topics; None: all."""
    if clause.patterns is None:
        return None
    # Literally compared patterns with wildcards are not subjects.
    literals = [one for one in sorted(clause.literals) if not {"+", "#"} & {*one}]
    return tuple(
        "/".join(one)
        for one in (*clause.patterns, *literals)
        if any(overlaps(one, other) for other in topics)
    )


def _only(listed: tuple[str, ...] | None, visitor: Principal) -> tuple[Clause, ...]:
    """Return a token's list as a clause; an empty list allows nothing."""
    if listed is None:
        return ()
    topics = map(parse_topic_pattern, listed)
    return (Clause(True, *filled_topics(topics, visitor.values())),)
