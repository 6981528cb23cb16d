"""Relationships: notices when members come near each other, and when they part.

A relationship is judged by what the node that defined it may see. When a member's position or
context changes, only its own distances are computed anew, and those of pairs only when the members
have travelled far enough to change them. The state itself is told by the host, to
whoever may see all members. What may be seen of a member can change: then nothing may tell what was
before, so a state counts from there, and one that does not follow from what is known now is veiled.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from nearcast.core.engine.dependent import EngineDependent, NodeUpdate
from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep, Handlers, RelationshipNotice
from nearcast.core.engine.queries.node_filter import is_true_of
from nearcast.core.language.evaluation.evaluator import double
from nearcast.core.language.evaluation.scope import followed
from nearcast.core.model.inputs import (
    Input,
    RelationshipDefined,
    RelationshipEnded,
    RelationshipSettled,
    RelationshipSilenced,
)
from nearcast.core.model.relationship_state import RelationshipState
from nearcast.core.model.visibility import SEE_ATTRIBUTES, SEE_IDENTITY, SEE_WHERE_NAMED
from nearcast.core.relationships.member_travel import MemberTravel, share
from nearcast.core.relationships.relationship import Relationship, Value, check_relationship

_NONE: dict[str, int] = {}
_READABLE = SEE_IDENTITY | SEE_ATTRIBUTES


class RelationshipUpdates(EngineDependent):
    """Defines and ends relationships, and follows their members."""

    def __init__(self, state: EngineState) -> None:
        self._book = state.relationships
        self._nodes = state.nodes
        self._rights = state.rights
        self._world = state.matcher.world
        self._travel: dict[str, MemberTravel] = {}
        """Of the members of pairs that are compared by position."""
        self._grouped: dict[str, dict[str, int]] = {}
        """By node: its groups that are compared by position, each with its place."""
        self._restricted = False
        """Something may have been hidden when the rules were last changed."""
        self._silent: set[str] = set()
        """Names of relationships that are judged when they are settled, not by moves."""
        self.handlers: Handlers = {
            RelationshipDefined: self.define,
            RelationshipEnded: self.end,
            RelationshipSilenced: self.silence,
            RelationshipSettled: self.settle,
        }

    # Definitions

    def define(self, each: RelationshipDefined, step: EngineStep) -> None:
        """Define a relationship; the notices tell its state of now."""
        check_relationship(each)
        old = self._book.get(each.name)
        if old is not None and (old.members, not old.metres) != (each.members, not each.metres):
            # It is another relationship from here on.
            self._end((each.name,), step)
            old = None
        self._remove(each.name)
        relationship = Relationship(replace(each, states=()), step.now)
        self._add(relationship)
        for number in range(len(relationship.states)):
            near = relationship.is_near(number)
            relationship.states[number] = RelationshipState(near, step.now)
            before = None if old is None else old.states[number].near
            notice = _notice(relationship, number, before, step, defined=True)
            step.outcome.notices.append(notice)

    def end(self, each: RelationshipEnded, step: EngineStep) -> None:
        """End a relationship."""
        self._end((each.name,), step)

    def silence(self, each: RelationshipSilenced, step: EngineStep) -> None:
        """Let a relationship wait until it is settled, or judge it by moves again."""
        if each.silent:
            self._silent.add(each.name)
        elif each.name in self._silent:
            self._settle(each.name, step)
            self._silent.discard(each.name)

    def settle(self, each: RelationshipSettled, step: EngineStep) -> None:
        """Judge a silent relationship by what its members reported."""
        if each.name in self._silent:
            self._settle(each.name, step)

    def _settle(self, name: str, step: EngineStep) -> None:
        if self._book.get(name) is None:
            return
        notices: list[RelationshipNotice] = []
        relationship = self._book.relationship(name)
        self._take_values(relationship)
        # Values may have been taken before, without a judgement.
        self._judge(relationship, range(len(relationship.states)), notices, step)
        _tell(notices, step)

    def resume(self, standing: Iterable[Input]) -> None:
        """Restore relationships with their states, when the nodes are known."""
        self._restricted = self._rights.restricts
        for each in standing:
            if isinstance(each, RelationshipDefined):
                self._add(Relationship(each, 0.0))
            elif isinstance(each, RelationshipSilenced):
                self._silent.add(each.name)

    def in_force(self) -> Iterator[RelationshipDefined | RelationshipSilenced]:
        """All relationships with their states, and which of them are silent."""
        yield from self._book
        for name in sorted(self._silent):
            yield RelationshipSilenced(name, True)

    def relationship(self, name: str) -> Relationship:
        """The relationship of a name, with the values of now."""
        found = self._book.relationship(name)
        for place in range(len(found.values)):
            found.put(place, self._value(found, place))
        return found

    # What changes

    @property
    def followed(self) -> Mapping[str, object]:
        """The members of all relationships."""
        return self._book.by_member

    def moved(self, node: str, step: EngineStep) -> None:
        """Follow a member that reported a position, as it had one before."""
        notices: list[RelationshipNotice] = []
        travel = self._travel.get(node)
        if travel is not None:
            at = self._nodes.position(node)
            assert at is not None
            self._look(self._judged_by_moves(travel.move(at)), notices, step)
        self._compare(self._groups_judged_by_moves(node), notices, step)
        if notices:
            _tell(notices, step)

    def node_changed(self, update: NodeUpdate, step: EngineStep) -> None:
        """Follow a member, and a node that defined relationships if it sees differently now."""
        node, at = update.after.node, update.after.position
        travel = self._travel.get(node)
        due: Iterable[str] = ()
        if travel is not None and update.fixed:
            if at is None or update.before.position is None:
                travel.stand(at)
                due = sorted(travel.pairs)
            else:
                due = self._judged_by_moves(travel.move(at))
        own = self._book.of_member(node)
        if update.reclassed:
            self._see_anew(node, step)
        elif own:
            notices: list[RelationshipNotice] = []
            read: list[str] = []
            if update.before.attributes != update.after.attributes:
                defined = {name: self._book.relationship(name).defined for name in own}
                read = [name for name in own if defined[name].reads_attributes]
            self._look(dict.fromkeys((*due, *read)), notices, step)
            if update.fixed:
                grouped: Mapping[str, int] = self._grouped.get(node, _NONE)
                if at is not None and update.before.position is not None:
                    grouped = self._groups_judged_by_moves(node)
                self._compare({n: grouped[n] for n in grouped.keys() - read}, notices, step)
            if notices:
                _tell(notices, step)

    def _judged_by_moves(self, names: list[str]) -> list[str]:
        return [each for each in names if each not in self._silent] if self._silent else names

    def _groups_judged_by_moves(self, node: str) -> Mapping[str, int]:
        grouped = self._grouped.get(node, _NONE)
        if not self._silent:
            return grouped
        return {name: place for name, place in grouped.items() if name not in self._silent}

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """End the relationships of a node, and those that it defined."""
        self._end(sorted({*self._book.of_member(node), *self._book.of_definer(node)}), step)

    def node_expired(self, node: str, step: EngineStep) -> None:
        """Follow a member of which nothing is known any more."""
        notices: list[RelationshipNotice] = []
        for name, place in self._book.of_member(node).items():
            relationship = self._book.relationship(name)
            relationship.put(place, None)
            self._allow(relationship)
            self._judge_anew(relationship, notices, step)
        if (travel := self._travel.get(node)) is not None:
            travel.stand(None)
        _tell(notices, step)

    def places_changed(self, reclassed: Sequence[str], step: EngineStep) -> None:
        """Follow nodes of which other nodes may see more or less now."""
        for node in reclassed:
            self._see_anew(node, step)

    def sight_changed(self, viewer: str, other: str, step: EngineStep) -> None:
        """Follow what a node may see of another."""
        self._restricted = True
        self._refresh((*self._book.of_member(other), *self._book.of_definer(viewer)), step)

    def rules_changed(self, step: EngineStep) -> None:
        """Follow rules on what may be seen, and attributes that they grant."""
        before, self._restricted = self._restricted, self._rights.restricts
        if before or self._restricted:
            self._refresh(self._book.names(), step)
            return
        notices: list[RelationshipNotice] = []
        self._look(self._book.names(), notices, step)
        _tell(notices, step)

    def _see_anew(self, node: str, step: EngineStep) -> None:
        """Follow a node that may see, or of which may be seen, more or less now."""
        self._refresh((*self._book.of_member(node), *self._book.of_definer(node)), step)

    def _refresh(self, names: Iterable[str], step: EngineStep) -> None:
        """Judge relationships whose members may have become visible, or hidden."""
        notices: list[RelationshipNotice] = []
        for name in dict.fromkeys(names):
            relationship = self._book.relationship(name)
            self._take_values(relationship)
            self._judge_anew(relationship, notices, step)
        _tell(notices, step)

    # Decisions

    def _look(
        self, names: Iterable[str], notices: list[RelationshipNotice], step: EngineStep
    ) -> None:
        """Compare all members of relationships, and note the states that changed."""
        for name in names:
            relationship = self._book.relationship(name)
            self._judge(relationship, self._take_values(relationship), notices, step)

    def _compare(
        self, places: Mapping[str, int], notices: list[RelationshipNotice], step: EngineStep
    ) -> None:
        """Compare a member, at a place of each relationship, with the others."""
        for name, place in places.items():
            relationship = self._book.relationship(name)
            touched = relationship.put(place, self._value(relationship, place))
            self._judge(relationship, touched, notices, step)

    def _take_values(self, relationship: Relationship) -> set[int]:
        """Take the values of all members; return the states that may have changed."""
        touched: set[int] = set()
        for place in range(len(relationship.values)):
            touched.update(relationship.put(place, self._value(relationship, place)))
        self._allow(relationship)
        return touched

    def _allow(self, relationship: Relationship) -> None:
        """Let the members of a pair travel as far as they can without changing its state."""
        if not relationship.is_pair:
            return
        name, members = relationship.defined.name, relationship.defined.members
        mover, other = (self._travel[member] for member in members)
        slack = relationship.slack_m()
        if slack is None:
            mover.end(name)
            other.end(name)
        elif mover.left(name) and not other.left(name):
            share(name, slack, other, mover)
        else:
            share(name, slack, mover, other)

    def _add(self, relationship: Relationship) -> None:
        """Keep a relationship, with the values of now."""
        self._book.put(relationship)
        defined = relationship.defined
        if relationship.is_pair:
            for member in defined.members:
                if member not in self._travel:
                    self._travel[member] = MemberTravel()
                    self._travel[member].stand(self._nodes.position(member))
                self._travel[member].pairs.add(defined.name)
        elif defined.of is None:
            for place, member in enumerate(defined.members):
                self._grouped.setdefault(member, {})[defined.name] = place
        self._take_values(relationship)

    def _remove(self, name: str) -> Relationship | None:
        removed = self._book.end(name)
        self._silent.discard(name)
        for member in () if removed is None else removed.defined.members:
            if (travel := self._travel.get(member)) is not None:
                travel.end(name)
                travel.pairs.discard(name)
                if not travel.pairs:
                    del self._travel[member]
            if (grouped := self._grouped.get(member)) is not None:
                grouped.pop(name, None)
                if not grouped:
                    del self._grouped[member]
        return removed

    def _judge(
        self,
        relationship: Relationship,
        touched: Iterable[int],
        notices: list[RelationshipNotice],
        step: EngineStep,
    ) -> None:
        """Note the states that changed."""
        for number in sorted(touched):
            before = relationship.states[number]
            near = relationship.is_near(number)
            unveiled = before.veiled and relationship.is_determined
            if near != before.near or unveiled:
                relationship.states[number] = RelationshipState(near, step.now)
                notices.append(_notice(relationship, number, before.near, step))

    def _judge_anew(
        self, relationship: Relationship, notices: list[RelationshipNotice], step: EngineStep
    ) -> None:
        """Note all states: they are told from now on, if they follow from what is known now."""
        for number, before in enumerate(relationship.states):
            near = relationship.is_near(number)
            veiled = not relationship.is_determined and self._rights.restricts
            relationship.states[number] = RelationshipState(near, step.now, veiled)
            notices.append(_notice(relationship, number, before.near, step))

    def _end(self, names: Iterable[str], step: EngineStep) -> None:
        for name in names:
            ended = self._remove(name)
            if ended is not None:
                step.outcome.notices += _end_notices(ended, step)

    def _value(self, relationship: Relationship, place: int) -> Value:
        """What counts of a member, as far as the node that defined the relationship may see."""
        defined = relationship.defined
        node, viewer = defined.members[place], defined.node
        sees = self._world.may_see(viewer, node)
        if defined.where is not None and not is_true_of(
            defined.where, node, None, viewer, sees, self._world, self._rights.context
        ):
            return None
        if defined.of is not None:
            if sees & _READABLE != _READABLE:
                return None
            return double(followed(self._rights.context(node), defined.of))  # type: ignore[arg-type]  # JSON
        return self._nodes.position(node) if sees & SEE_WHERE_NAMED == SEE_WHERE_NAMED else None


def _notice(
    relationship: Relationship,
    number: int,
    before: bool | None,
    step: EngineStep,
    *,
    defined: bool = False,
) -> RelationshipNotice:
    of, state = relationship.defined, relationship.states[number]
    # Its cost is only worth while where everybody may be told.
    distance = relationship.distance(number) if defined or state.near != before else None
    by = of.members[number] if of.metres else ""
    return RelationshipNotice(
        of.name, of.members, state.near, before, distance, step.now, of.needed_sight, by, defined,
        veiled=state.veiled,
    )  # fmt: skip


def _end_notices(ended: Relationship, step: EngineStep) -> Iterator[RelationshipNotice]:
    of = ended.defined
    for number, state in enumerate(ended.states):
        by = of.members[number] if of.metres else ""
        before = None if state.veiled else state.near
        yield RelationshipNotice(
            of.name, of.members, False, before, None, step.now, of.needed_sight, by, ended=True
        )


def _tell(notices: list[RelationshipNotice], step: EngineStep) -> None:
    """Put notices into the order of their names: it does not depend on that of definitions."""
    notices.sort(key=lambda each: each.relationship)
    step.outcome.notices += notices
