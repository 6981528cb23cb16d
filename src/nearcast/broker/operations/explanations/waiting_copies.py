"""Which copies of an event wait for the sessions of a node now, and why they did not leave yet.

The log says what was decided; what waits is known to the running broker alone. Copies are found by
the metadata that they carry, as all do that follow relevance.
"""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from nearcast.broker.sessions.outbound_message import QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.core.engine.engine import Engine
from nearcast.core.propagation.outbox import WITHHELD

_ID = "nc-id"


class WaitingCopy(Struct, frozen=True):
    """A copy of an event in the queue of one session, or sent and not acknowledged."""

    client: str
    state: str
    """`queued`, `withheld` or `in flight`."""
    priority: int
    """The one of now; -1: withheld."""
    waits_s: float
    ahead: int
    """How many messages leave before it, as far as priority and arrival tell."""
    why: str


def waiting_copies(
    sessions: Mapping[str, Session],
    engine: Engine,
    event: str,
    node: str,
    publisher: str | None,
    now: float,
) -> list[WaitingCopy]:
    """Return the copies of an event that wait for the sessions of a node."""
    return [
        copy
        for session in sessions.values()
        if session.node == node and session.has_messages
        for copy in _copies_of(session, engine, event, publisher, now)
    ]


def _copies_of(
    session: Session, engine: Engine, event: str, publisher: str | None, now: float
) -> Iterator[WaitingCopy]:
    def is_meant(each: QueuedDelivery) -> bool:
        sender = each.message.publisher
        return publisher in (None, sender, sender.partition("~")[0]) and _event_of(each) == event

    queue = session.queued_deliveries()
    for place, each in enumerate(queue):
        if not is_meant(each):
            continue
        state = "withheld" if each.priority == WITHHELD else "queued"
        ahead = 0
        if state == "queued":
            ahead = sum(
                other.was_sent or 0 < other.priority < each.priority or (
                    other.priority == each.priority and before < place
                )
                for before, other in enumerate(queue)
            )  # fmt: skip
        why = _why(session, engine, each, ahead)
        waits_s = round(max(0.0, now - each.queued_at), 3)
        yield WaitingCopy(session.client_id, state, each.priority, waits_s, ahead, why)
    for each in session.sent_deliveries():
        if is_meant(each):
            why = "it was sent, and the client has not acknowledged it"
            if session.connection is None:
                why += "; it is sent again when the client connects"
            waits_s = round(max(0.0, now - each.queued_at), 3)
            yield WaitingCopy(session.client_id, "in flight", each.priority, waits_s, 0, why)


def _event_of(delivery: QueuedDelivery) -> str | None:
    """Return the id of the event that a copy carries; None if it does not tell."""
    for name, value in delivery.metadata:
        if name == _ID:
            return value
    if delivery.message.enveloped:
        return msgspec.json.decode(delivery.message.frame.payload, type=_Envelope).id
    return None


def _why(session: Session, engine: Engine, delivery: QueuedDelivery, ahead: int) -> str:
    if delivery.priority == WITHHELD:
        context_class = engine.context_class(session.client_id)
        return f"class {context_class} and the relevance of now withhold it"
    connection = session.connection
    if connection is None:
        return "the client is not connected"
    if ahead:
        return "others leave before it"
    if connection.blocked:
        return "the link takes no more for now"
    if delivery.qos and session.sent_deliveries():
        return "the client has to acknowledge others first"
    return "it leaves with the next portion for its link"


class _Envelope(Struct):
    id: str | None = None
