"""Subscriptions of scripts: named ones of their sessions, with the rights of their senders."""

from nearcast.broker.auth.permissions import Permissions
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.ingest.subscribe import SubscribeHandler, check_broker_topic
from nearcast.broker.scripts.placed_script import PlacedScript, subscriptions_of
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.nc_properties import (
    BAD,
    NamedSubscriptionOptions,
    SubscriptionOptions,
)
from nearcast.broker.situation.relevance_options import resolved_options
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Subscription
from nearcast.core.model.inputs import Subscribed
from nearcast.core.model.subscription_id import SubscriptionId
from nearcast.wire.mqtt import ReasonCode, TopicFilter, parse_filter

_WHAT = '"relevance"'


class ScriptSubscriptions:
    """Checks, grants and ends the subscriptions of scripts."""

    def __init__(self, state: BrokerState, subscribing: SubscribeHandler) -> None:
        self._state = state
        self._subscribing = subscribing

    def check(self, placed: PlacedScript, permissions: Permissions) -> None:
        """Refuse subscriptions of a script, before anything is changed."""
        node = placed.node
        for asked in subscriptions_of(placed.events):
            if placed.is_foreign:
                _check_foreign(asked)
            try:
                parsed = parse_filter(asked.subject)
                if parsed.pattern[:1] == "$":
                    check_broker_topic(parsed.pattern)
            except ModelError as error:
                raise RefusedError(BAD, f"{asked.subject!r}: {error}") from None
            except RefusedError as refusal:
                raise RefusedError(BAD, refusal.why) from None
            if not permissions.may_subscribe(asked.subject):
                why = f"a rule forbids subscribing to {asked.subject!r}"
                raise RefusedError(ReasonCode.NOT_AUTHORIZED, why)
            self._subscribing.vet(node, asked.options, '"from"')
            resolved_options(asked.options, self._state.engine, node, _WHAT)

    def replace(self, session: Session, placed: PlacedScript) -> None:
        """Grant the subscriptions of a script in place of those that its session has.

        Raises `RefusedError` if a quota forbids one of them; then nothing is changed.
        """
        before = [SubscriptionId.parse(id_) for id_ in session.granted]
        granted: list[Subscribed] = []
        try:
            for number, asked in enumerate(subscriptions_of(placed.events)):
                options = SubscriptionOptions()
                if not placed.is_foreign:
                    options, _ = resolved_options(
                        asked.options, self._state.engine, session.node, _WHAT
                    )
                # A script does not hear itself.
                topic_filter = TopicFilter(asked.subject, asked.qos, no_local=True)
                name = f"{placed.version}.{number}"
                granted += self._subscribing.grant(
                    session.permissions, session, topic_filter, None, options, name
                )
        except RefusedError as refusal:
            for value in granted:
                self._subscribing.drop(session, SubscriptionId.parse(value.subscription.id))
            reason = refusal.reason
            if reason is ReasonCode.TOPIC_FILTER_INVALID:
                reason = BAD
            raise RefusedError(reason, refusal.why) from None
        for id_ in before:
            self._subscribing.end(session, id_)
        for value in granted:
            self._state.pending.ask(value)


def judged_subscriptions(placed: PlacedScript) -> tuple[Subscription, ...]:
    """Return what is to be judged with the sight of its sender for a script at another's node."""
    return tuple(
        Subscription(
            "", placed.node, parse_filter(asked.subject).pattern, asked.options.where,
            asked.options.from_,
        )
        for asked in subscriptions_of(placed.events)
    )  # fmt: skip


def _check_foreign(asked: NamedSubscriptionOptions) -> None:
    where = asked.options.where
    if asked.subject.startswith("$"):
        why = "a script at another's node subscribes to events, not to topics of the broker"
        raise RefusedError(BAD, f"{asked.subject!r}: {why}")
    if asked.options.relevance_given is not None or asked.options.template:
        raise RefusedError(BAD, "a script at another's node has no relevance and no template")
    if where is not None and where.counted_subjects:
        raise RefusedError(BAD, "a script at another's node cannot count events in a filter")
