"""Readers of topics that the broker itself publishes on.

Such messages are not events of the log. Readers get them if their filters and areas match, as
retained messages when replayed.
"""

from msgspec.structs import replace

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.sessions.session import Session
from nearcast.core.matching.reference import decide
from nearcast.core.model.event import Event, Subscription


class TopicReaders:
    """Finds readers, and sends them messages."""

    def __init__(self, state: BrokerState, delivering: DeliveryDispatcher) -> None:
        self._state = state
        self._delivering = delivering

    def of(self, topic: str) -> list[tuple[Session, list[Subscription]]]:
        """The readers of a topic: each session once, and one connected session per shared group."""
        found: dict[tuple[str, str], list[Subscription]] = {}
        for wanted in self._state.engine.fitting(topic):
            found.setdefault((wanted.group or "", wanted.owner), []).append(wanted)
        readers: list[tuple[Session, list[Subscription]]] = []
        groups: set[str] = set()
        for (group, owner), own in sorted(found.items()):
            session = self._state.sessions.get(owner)
            if session is None or (group and (group in groups or session.connection is None)):
                continue
            groups.add(group)
            readers.append((session, own))
        return readers

    def put(
        self,
        session: Session,
        wanted: list[Subscription],
        event: Event,
        replayed: bool = False,
        topic: str | None = None,
    ) -> None:
        """Deliver a message to a session's matching subscriptions.

        On `topic` if that is spelt differently from the event's subject.
        """
        world = self._state.engine.matcher.world
        fitting = tuple(
            each.id for each in wanted if each.plain or decide(event, each, world).passed
        )
        if fitting:
            copy = replace(
                event, id=self._state.unique_id(), subject=topic or event.subject, retain=True
            )
            deliveries = self._state.engine.addressed(copy, [(fitting, 1)], replayed)
            self._delivering.deliver(deliveries)
