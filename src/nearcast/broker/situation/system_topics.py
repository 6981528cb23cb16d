"""`$SYS/broker/…`: statistics of the broker under the names that monitoring tools use.

They behave like retained messages, and are published every ten seconds to readers with permission;
they are not events and not in the log.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from math import inf

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.situation.topic_readers import TopicReaders
from nearcast.core.engine.engine import Outcome
from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Input, Subscribed
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.subject import subject_matches

PREFIX = "$SYS/"
EVERY_S = 10.0


class SystemTopics(OutcomeFollower):
    """Publishes statistics of the broker."""

    def __init__(self, state: BrokerState, readers: TopicReaders) -> None:
        self._state = state
        self._readers = readers
        self._since: float | None = None
        self._due = inf
        """The time of the next publication; `inf` without readers."""

    def begin(self, now: float) -> None:
        """Start publishing; there may be restored subscriptions."""
        self._since = now
        wanted = self._state.engine.subscriptions.values()
        if any(each.subject.startswith(PREFIX) for each in wanted):
            self._due = now + EVERY_S

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Send new readers the current statistics."""
        for value in others:
            if not isinstance(value, Subscribed):
                continue
            wanted = value.subscription
            if not wanted.subject.startswith(PREFIX):
                continue
            self._due = min(self._due, now + EVERY_S)
            session = self._state.sessions.get(wanted.owner)
            if session is None or wanted.group is not None or not value.replay:
                continue
            for topic, text in self.figures(now).items():
                if subject_matches(wanted.subject, topic):
                    self._readers.put(session, [wanted], _event(topic, text, now), True)

    def remind(self, now: float) -> None:
        """Publish to readers if due."""
        if now < self._due:
            return
        read = False
        for topic, text in self.figures(now).items():
            for session, wanted in self._readers.of(topic):
                read = True
                self._readers.put(session, wanted, _event(topic, text, now))
        self._due = now + EVERY_S if read else inf

    def next_timer(self) -> float | None:
        """The time of the next publication."""
        return None if self._due == inf else self._due

    def figures(self, now: float) -> dict[str, str]:
        """All statistics by topic, as text."""
        since = now if self._since is None else self._since
        texts = {
            "version": f"nearcast version {version('nearcast')}",
            "uptime": f"{int(now - since)} seconds",
        }
        texts |= {name: str(figure(self._state)) for name, figure in _FIGURES.items()}
        return {f"{PREFIX}broker/{name}": text for name, text in texts.items()}


_FIGURES: dict[str, Callable[[BrokerState], int]] = {
    "clients/total": lambda state: len(state.sessions),
    "clients/connected": lambda state: state.traffic.clients,
    "clients/disconnected": lambda state: len(state.sessions) - state.traffic.clients,
    "clients/maximum": lambda state: state.traffic.most_clients,
    "subscriptions/count": lambda state: len(state.engine.subscriptions),
    "messages/received": lambda state: state.traffic.packets_received,
    "messages/sent": lambda state: state.traffic.answers_sent + state.counters["sent"],
    "publish/messages/received": lambda state: state.traffic.messages_received,
    "publish/messages/sent": lambda state: state.counters["sent"],
    "publish/messages/dropped": lambda state: state.counters["dropped"],
    "bytes/received": lambda state: state.traffic.bytes_received,
    "bytes/sent": lambda state: state.traffic.bytes_sent,
    "retained messages/count": lambda state: len(state.engine.live),
}


def _event(topic: str, text: str, now: float) -> Event:
    payload = text.encode()
    return Event("", topic, "", now, attributes_of(payload), payload=payload, qos=1)
