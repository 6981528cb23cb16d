"""What the filters of a session may count: events on subjects that it may subscribe to.

The engine has no topic rules. The permissions for the subjects that a filter counts are part of its
subscription, which is recorded; when rules change them, the subscription is replaced.
"""

from msgspec.structs import replace

from nearcast.broker.auth.permissions import Permissions
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.sessions.granted import Counting, SessionSubscription
from nearcast.broker.sessions.session import Session
from nearcast.core.language import Filter
from nearcast.core.model.event import Subscription
from nearcast.core.model.inputs import Subscribed
from nearcast.core.model.subject_permissions import SubjectPermissions
from nearcast.store import SubscriptionPut, SubscriptionState


def countable_by(allowed: Permissions, where: Filter | None) -> SubjectPermissions | None:
    """Return the permissions for the subjects that a filter counts; None: all are allowed."""
    patterns = () if where is None else where.counted_subjects
    return allowed.readable(patterns) if patterns else None


def noted_if_counting(
    granted: SessionSubscription, subscription: Subscription, kept: SubscriptionState
) -> SessionSubscription:
    """Return the grant, with its engine and store forms if its filter counts."""
    if subscription.where is None or not subscription.where.counted_subjects:
        return granted
    return replace(granted, counting=Counting(subscription, kept))


def renew_counts(state: BrokerState, session: Session) -> None:
    """Update what a session's filters may count to the rules now in force."""
    for id_, granted in list(session.granted.items()):
        counting = granted.counting
        if counting is None:
            continue
        countable = countable_by(session.permissions, counting.subscription.where)
        if countable == counting.subscription.countable:
            continue
        # Its vector follows the role and task of its node.
        in_force = state.engine.subscriptions.get(id_, counting.subscription)
        wanted = replace(counting.subscription, countable=countable, relevance=in_force.relevance)
        kept = replace(counting.kept, countable=countable)
        session.grant(id_, noted_if_counting(granted, wanted, kept))
        state.pending.ask(Subscribed(wanted, replay=False))
        if session.durable:
            key = granted.id_of(session.client_id).key
            state.journal.note(SubscriptionPut(session.client_id, key, kept))
