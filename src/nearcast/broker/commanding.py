"""Commanding: what a client says to the broker itself, in messages to `$` topics."""

from msgspec.structs import replace

from nearcast.broker.answering import Answering
from nearcast.broker.broker_state import Answer, BrokerState
from nearcast.broker.connection import Connection
from nearcast.broker.queueing import Queueing
from nearcast.broker.releasing import Releasing
from nearcast.broker.session import Session
from nearcast.broker.situation.commands import command, place_key, place_of
from nearcast.broker.situation.words import NOTHING_SAID
from nearcast.broker.subscribing import Subscribing
from nearcast.broker.vetting import Vetting
from nearcast.wire.handover import PREFIX as HANDOVER
from nearcast.wire.mqtt import NO_PROPERTIES, Publish

_OWN, _SUBSCRIPTIONS = "$me/", "$me/subscriptions/"


class Commanding:
    """Takes commands."""

    def __init__(
        self,
        state: BrokerState,
        subscribing: Subscribing,
        releasing: Releasing,
        answering: Answering,
        vetting: Vetting,
        queueing: Queueing,
    ) -> None:
        self._state = state
        self._subscribing = subscribing
        self._releasing = releasing
        self._answering = answering
        self._vetting = vetting
        self._queueing = queueing
        self._shown: dict[str, str] | None = None
        """The topic on which each place is there to be read."""

    def take(
        self, connection: Connection, session: Session, packet: Publish, raw: bytes, now: float
    ) -> None:
        """Do what a message to a `$` topic says; raises `RefusedError` if that may not be."""
        if packet.topic.startswith(_SUBSCRIPTIONS):
            # What came before goes by the subscriptions of then.
            self._state.settle(now)
            self._subscribing.named(connection, session, packet)
        elif packet.topic.startswith(HANDOVER):
            self._releasing.take(connection, packet)
        else:
            self._ask(connection, session, packet, raw, now)
            return
        self._answering.accept_in_turn(connection, packet)

    def _ask(
        self, connection: Connection, session: Session, packet: Publish, raw: bytes, now: float
    ) -> None:
        """Ask of the engine what a message means."""
        state = self._state
        if not packet.topic.startswith(_OWN):
            self._vetting.check_rights(connection, packet)
        asked = command(session, packet, state.engine.rights.protected)
        shown = None if asked.shows is None else replace(packet, retain=True)
        if shown is not None:
            self._vetting.check_room(session, shown, NOTHING_SAID)
        answer = Answer(connection, packet.qos, packet.packet_id, packet.topic, asked.keep)
        state.answers.append((len(state.inputs), answer, None))
        connection.waits = True
        for value in asked.inputs:
            state.ask(value)
        if asked.shows is not None and shown is not None:
            topics = self._topics()
            before = topics.pop(asked.shows, packet.topic)
            if before != packet.topic:
                # The same, spelt otherwise.
                gone = Publish(before, b"", packet.qos, True)
                self._queueing.queue(None, session, gone, b"", NO_PROPERTIES, NOTHING_SAID, now)
            if packet.payload:
                topics[asked.shows] = packet.topic
            self._queueing.queue(None, session, shown, raw, NO_PROPERTIES, NOTHING_SAID, now)
        if packet.qos:
            state.journal.must_sync = True

    def _topics(self) -> dict[str, str]:
        if self._shown is None:
            topics = [parcel.frame.topic for parcel in self._state.live.values()]
            found = [(place_of(topic), topic) for topic in topics]
            self._shown = {place_key(*place): topic for place, topic in found if place is not None}
        return self._shown
