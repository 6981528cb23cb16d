"""The inputs that are still in force in an engine: from them another engine can be restored.

Whatever a later decision depends on is among them, so the restored engine decides as the first one
would have. Indexes are not: they follow from the inputs. All values are copies or immutable, so
they may be written down while the engine goes on.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from nearcast.core.gathering.waiting import WaitingPool
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import (
    Input,
    PlaceDefined,
    Presence,
    Restarted,
    Subscribed,
    Undelivered,
)


class LiveEvent(Struct, frozen=True):
    """An event that stays, its expiry, and the sessions that have got it or missed it."""

    event: Event
    expires: float | None = None
    seen: Collection[str] = ()


class EngineInputs(Struct, frozen=True):
    """The inputs in force in an engine; by default none."""

    restarted: Restarted = Restarted()
    """The settings; its sessions have not come back since a restart: unknown what they missed."""
    standing: Sequence[Input] = ()
    """In any order: places, rights, policies, announcements, watched areas, relationships,
    sessions that have or lost their connection, live events that they missed, and the subscriptions
    of an unfinished request."""
    removed_places: Sequence[PlaceDefined] = ()
    """Places that no longer exist, as the rules in force still know them."""
    subscriptions: Iterable[Subscription] = ()
    """Oldest first, also those of an unfinished request."""
    nodes: Iterable[NodeState] = ()
    live: Iterable[LiveEvent] = ()
    """Oldest version first."""
    recent: Iterable[tuple[float, Event]] = ()
    """Events that count, each with its time, oldest first."""
    known: Iterable[tuple[str, str]] = ()
    """Publisher and id of earlier events, by which repeats are recognised, oldest first."""
    turns: Mapping[tuple[str, str], int] = {}
    """The number of events that each shared group has had, by group and subject."""
    waiting: Iterable[WaitingPool] = ()
    """What waits for subscriptions that gather, oldest first."""
    hidden: Iterable[WaitingPool] = ()
    """Events that wait for a smallest number of people."""

    def of_sessions(self) -> "EngineInputs":
        """Return what of it is kept in one shard only: subscriptions and the state of sessions."""
        return EngineInputs(
            Restarted(self.restarted.sessions),
            [each for each in self.standing if _is_of_session(each)],
            subscriptions=self.subscriptions,
            live=[each for each in self.live if each.seen],
            turns=self.turns,
            waiting=self.waiting,
        )


def _is_of_session(value: Input) -> bool:
    if isinstance(value, Presence):
        return not value.here
    return isinstance(value, Subscribed | Undelivered)
