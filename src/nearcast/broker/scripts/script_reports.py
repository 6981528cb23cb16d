"""What senders of scripts are told on `$me/errors`, and hosts on `$me/scripts`."""

from collections.abc import Callable

import msgspec

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.scripts.placed_script import PlacedScript
from nearcast.broker.scripts.script_book import ScriptBook
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.errors import ErrorReports
from nearcast.broker.situation.topic_names import SCRIPTS
from nearcast.wire.mqtt import PublishFrame

AT_ONCE = 10
"""What a sender is told of one script within `EVERY_S`."""
EVERY_S = 10.0


class ScriptReports:
    """Tells sessions about scripts."""

    def __init__(
        self,
        state: BrokerState,
        book: ScriptBook,
        dispatcher: DeliveryDispatcher,
        errors: ErrorReports,
    ) -> None:
        self._state = state
        self._book = book
        self._dispatcher = dispatcher
        self._errors = errors
        self._told: dict[str, tuple[float, int]] = {}
        """Since when, and how often, the sender of a script was told something."""
        self._watched: set[str] = set()
        """Client ids of sessions that subscribed to the list."""
        self.on_changed: Callable[[str], None] = lambda node: None
        """Called with a host whose scripts are others."""
        self._changed: dict[str, None] = {}
        """Hosts whose list is another than was told."""

    # To the sender

    def tell(self, placed: PlacedScript, why: str, now: float) -> None:
        """Tell the sender of a script something, unless it was told much just now."""
        since, count = self._told.get(placed.client_id, (now, 0))
        if now - since >= EVERY_S:
            since, count = now, 0
        self._told[placed.client_id] = since, count + 1
        if count < AT_ONCE:
            self.tell_anyway(placed, why)

    def tell_anyway(self, placed: PlacedScript, why: str) -> None:
        """Tell the sender of a script something, now or when it comes back."""
        session = self._state.sessions.get(placed.sender)
        if session is not None:
            self._errors.tell_now_or_later(session, placed.topic, why)

    def forget(self, placed: PlacedScript) -> None:
        """Forget what was told about a script that has ended."""
        self._told.pop(placed.client_id, None)

    # To the host

    def listen(self, session: Session) -> None:
        """Tell the list to a session that has subscribed to it."""
        self._watched.add(session.client_id)
        self._put(session)

    def resume(self) -> None:
        """Find the sessions that have subscribed to the list, after a restart."""
        for session in self._state.sessions.values():
            if session.granted_filter(SCRIPTS) is not None:
                self._watched.add(session.client_id)

    def note_changed(self, node: str) -> None:
        """Note that the scripts of a host are others."""
        self._state.is_woken = True
        self.on_changed(node)
        if self._watched:
            self._changed[node] = None

    def tell_hosts(self) -> None:
        """Tell the lists that have changed to all who subscribed to them."""
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        for client_id in list(self._watched):
            session = self._state.sessions.get(client_id)
            if session is None or session.granted_filter(SCRIPTS) is None:
                self._watched.discard(client_id)
            elif session.node in changed:
                self._put(session)

    def _put(self, session: Session) -> None:
        granted = session.granted_filter(SCRIPTS)
        if granted is None:
            return
        listed = [_listed(each.placed) for each in self._book.at(session.node)]
        message = OutboundMessage(PublishFrame(SCRIPTS, msgspec.json.encode(listed)))
        self._dispatcher.put(session, QueuedDelivery(message, min(1, granted.wanted.qos)))


def _listed(placed: PlacedScript) -> dict[str, object]:
    return {
        "id": placed.id,
        "from": placed.sender,
        "events": msgspec.Raw(placed.events),
        "state": "stopped" if placed.problem else "runs",
        "error": placed.problem or None,
    }
