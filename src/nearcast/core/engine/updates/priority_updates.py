"""Adapting, the fourth step: when the context of a subscriber changes, its priorities follow.

A class, a role, a task or a policy changes the row of the matrix, or the vector, of subscriptions
with relevance. Live events that are no longer withheld are delivered. What waits for a session is
prioritised again by its host, which is told of the sessions.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from msgspec.structs import replace

from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.adaptation.policy_documents import AWARENESS, MATRIX, ROLES
from nearcast.core.adaptation.priority_basis import PriorityBasis
from nearcast.core.adaptation.priority_matrix import WITHHELD
from nearcast.core.adaptation.priority_rules import NEVER, priority_of
from nearcast.core.adaptation.relevance import Levels, checked_vector
from nearcast.core.adaptation.subscriber_priorities import JudgedSubscription, WeightedForm
from nearcast.core.engine.delivery.deliveries import Deliveries, Recipient
from nearcast.core.engine.dependent import EngineDependent, NodeUpdate
from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep, Handlers
from nearcast.core.model.event import Relevance, Subscription
from nearcast.core.model.inputs import Classified, Input, PolicySet


class PriorityUpdates(EngineDependent):
    """Keeps rows and vectors of subscriptions with relevance up to date."""

    def __init__(self, state: EngineState) -> None:
        self._policies = state.policies
        self._contexts = state.contexts
        self._subscriptions = state.subscriptions
        self._live_delivery = state.live_delivery
        self._priorities = state.matcher.priorities
        self.handlers: Handlers = {Classified: self.classify, PolicySet: self.set_policy}

    # What changes contexts

    def classify(self, each: Classified, step: EngineStep) -> None:
        """Take the class of a session's link."""
        self._contexts.told(each)
        self._follow(each.session or each.node, step)

    def node_changed(self, update: NodeUpdate, step: EngineStep) -> None:
        """Follow the attributes of a node: its classes, its role and its task."""
        if update.before.attributes != update.after.attributes:
            self._follow_node(update.after.node, step)

    def rules_changed(self, step: EngineStep) -> None:
        """Follow attributes that rules grant or protect."""
        for node in self._subscriptions.weighted_nodes():
            self._follow_node(node, step)

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """Forget the classes of a node."""
        self._contexts.forget(node)

    def node_expired(self, node: str, step: EngineStep) -> None:
        """Forget the classes of a node."""
        self._contexts.forget(node)

    def set_policy(self, each: PolicySet, step: EngineStep) -> None:
        """Set or remove a policy; a wrong one is refused, and the one before stays."""
        kind, name = each.policy_kind, each.name
        if each.document is None:
            self._policies.remove(kind, name)
        else:
            self._policies.put(kind, name, each.document)
        if kind in (AWARENESS, MATRIX, ROLES):
            for node in self._subscriptions.weighted_nodes():
                self._follow_node(node, step)

    # What follows

    def _follow_node(self, node: str, step: EngineStep) -> None:
        sessions = self._subscriptions.weighted_sessions(node)
        if not sessions:
            return
        self._contexts.classify(node)
        for session in sessions:
            self._follow_roles(session, step)
            self._follow(session, step)

    def _follow_roles(self, session: str, step: EngineStep) -> None:
        """Replace vectors that follow the role and the task of their subscriber."""
        for name in self._subscriptions.weighted_of(session):
            try:
                if self._follow_role(self._subscriptions.by_id[name]):
                    step.outcome.reprioritised[session] = None
            except AdaptationError as error:
                step.outcome.warnings.append((name, f"{error} The vector of before stays."))

    def _follow_role(self, subscription: Subscription) -> bool:
        """Give a subscription the vector of role and task, if it follows them and has another.

        Raises AdaptationError if there is none.
        """
        relevance = subscription.relevance
        if relevance is None or not relevance.template:
            return False
        # The subscription keeps the filter that the template had, and may have another by now.
        form = FormFunction(subscription.where)
        levels = checked_vector(self.role_levels(subscription.node, relevance.template), form)
        if levels == relevance.levels:
            return False
        changed = Relevance(levels, relevance.template)
        self._subscriptions.add([replace(subscription, relevance=changed)])
        return True

    def _follow(self, session: str, step: EngineStep) -> None:
        """Let the row of a session be the one of its class now."""
        numbers = self._subscriptions.weighted_numbers(session)
        if not len(numbers):
            return
        row = self._contexts.row(session)
        if row != self._priorities.row_of(int(numbers[0])):
            self._priorities.set_row(numbers, row)
            step.outcome.reprioritised[session] = None
        if session in step.outcome.reprioritised:
            self._live_delivery.deliver_to(numbers.tolist(), step.outcome)

    def role_levels(self, node: str, template: str) -> Levels:
        """The vector of a node's role and task for a template; raise AdaptationError."""
        contexts, roles = self._contexts, self._policies.roles(template)
        return roles.vector(contexts.role(node), contexts.task(node))

    # Questions of hosts

    def basis(
        self, deliveries: Deliveries, place: int, recipient: Recipient
    ) -> PriorityBasis | None:
        """What the priority of a copy depends on; None if it is always the most urgent."""
        wanted = recipient.subscriptions
        if deliveries.bases is not None:
            return deliveries.bases.get(wanted[0].id)
        if any(each.relevance is None for each in wanted):
            return None
        truths = deliveries.truths(place, recipient)
        judged = tuple(
            JudgedSubscription(each.id, self._weighted(number, each), truths[number])
            for number, each in zip(recipient.numbers, wanted, strict=True)
            if number in truths
        )
        event = deliveries.events[place]
        return PriorityBasis(judged, event.priority, event.raises) if judged else None

    def _weighted(self, number: int, subscription: Subscription) -> WeightedForm:
        """The form and the vector of a subscription as it was matched."""
        assert subscription.relevance is not None
        levels, found = subscription.relevance.levels, self._priorities.of(number)
        if found is None or found.form.filter is not subscription.where or found.levels != levels:
            # It was replaced or removed since, in the same step.
            return WeightedForm(FormFunction(subscription.where), levels)
        return found

    def priorities(self, session: str) -> Callable[[PriorityBasis], int]:
        """Return a function that gives the priority of a queued event for a session now.

        WITHHELD if it is not to be sent. Equal truths are judged once.
        """
        row = self._contexts.row(session)
        known: dict[tuple[int, Levels, int, int], int] = {}

        def judge(judged: JudgedSubscription) -> int:
            weighted, truths = judged.weighted, judged.truths
            levels = self._levels_now(judged.id, weighted.levels)
            key = id(weighted), levels, truths.true, truths.false
            priority = known.get(key)
            if priority is None:
                priority = known[key] = priority_of(weighted.form, levels, row, truths)
            return priority

        def priority(basis: PriorityBasis) -> int:
            best = min(map(judge, basis.judged))
            if best != NEVER and basis.said is not None:
                best = basis.said if basis.raises else max(best, basis.said)
            return WITHHELD if best == NEVER else best

        return priority

    def _levels_now(self, name: str, levels: Levels) -> Levels:
        """The vector of a subscription, if it still follows roles; else the one of then."""
        subscription = self._subscriptions.by_id.get(name)
        relevance = None if subscription is None else subscription.relevance
        if relevance is not None and relevance.template and len(relevance.levels) == len(levels):
            return relevance.levels
        return levels

    # Restoring

    def in_force(self) -> Iterator[Input]:
        """Yield the classes of sessions and nodes."""
        yield from self._contexts.in_force()

    def resume(self, standing: Iterable[Input]) -> None:
        """Restore classes, and the vectors and rows of all subscriptions with relevance."""
        known = False
        for each in standing:
            if isinstance(each, Classified):
                self._contexts.told(each)
                known = known or each.attribute
        for node in self._subscriptions.weighted_nodes():
            if not known:
                self._contexts.classify(node)
            for session in self._subscriptions.weighted_sessions(node):
                for name in self._subscriptions.weighted_of(session):
                    # Stored is the vector of the role and task when it was subscribed to.
                    with suppress(AdaptationError):
                        self._follow_role(self._subscriptions.by_id[name])
                row = self._contexts.row(session)
                self._priorities.set_row(self._subscriptions.weighted_numbers(session), row)
