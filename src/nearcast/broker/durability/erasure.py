"""Erasure of a node: sessions, queues, live events, contexts and the places it named.

The log is erased by the store writer. Messages that other nodes received stay, and so does what
they wrote about the node in their own messages.
"""

from pathlib import Path

from nearcast.broker.auth import Authenticator
from nearcast.broker.config.settings import Settings
from nearcast.broker.durability.recovery import restore
from nearcast.broker.durability.store_writer import journal_for
from nearcast.broker.hub import Hub
from nearcast.broker.situation.commands import place_of
from nearcast.core.model.inputs import AreaUnwatched, Forgot, PlaceDefined
from nearcast.store import Store, standing_change
from nearcast.wire.mqtt import ReasonCode


def forget(hub: Hub, node: str, now: float) -> dict[str, int]:
    """Erase a node from a hub; return counts. The next tick stores the changes."""
    sessions = [each for each in hub.sessions.values() if each.node == node]
    for session in sessions:
        connection = session.connection
        if connection is not None:
            hub.close(connection, ReasonCode.ADMINISTRATIVE_ACTION, "this node was forgotten")
        hub.lifecycle.drop_will(session)
        hub.lifecycle.end(session, now)
    dropped = sum(session.drop_from(node, hub.state.journal) for session in hub.sessions.values())
    # A place name may identify its author, so the place is removed together with its message.
    for event in hub.engine.live:
        place = place_of(event.subject)
        if place is not None and event.publisher == node:
            hub.state.pending.ask(PlaceDefined(*place, None))
            hub.state.journal.note(standing_change(PlaceDefined(*place, None)))
    for area in [each for each in hub.engine.watched_areas if each.node == node]:
        hub.state.pending.ask(AreaUnwatched(area.name))
        hub.state.journal.note(standing_change(AreaUnwatched(area.name)))
    hub.state.pending.ask(Forgot(node))
    # Log files are about to be rewritten.
    hub.keep_moves()
    return {"sessions": len(sessions), "messages": dropped}


def forget_in_store(store: Store, settings: Settings, node: str, now: float) -> dict[str, int]:
    """Erase a node from the data of a broker that is not running.

    A will may become due at this moment, so the authenticator decides on permissions as usual.
    """
    admission = Authenticator(settings, Path(settings.node.data))
    hub = Hub(settings, journal_for(store), admission)
    restore(hub, store, now)
    found = forget(hub, node, now)
    entries = hub.tick(now).entries
    store.commit(entries.changes, entries.rows, now=now)
    return found | {"segments": store.erase(node, now=now)}
