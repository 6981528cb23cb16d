"""Commands to the broker, and their results.

MQTT 5 refuses a message with a reason. MQTT 3 cannot: the broker then reports on `$me/errors`, so a
command is followed by a request whose answer comes after any error.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import msgspec

from nearcast.client.api.exchange import Exchange
from nearcast.client.errors import RejectedError
from nearcast.client.receive.mailboxes import Mailbox, Mailboxes
from nearcast.client.receive.received import Received
from nearcast.logs import log_event
from nearcast.wire.mqtt import MQTT_5, NO_PROPERTIES, Properties, ReasonCode, TopicFilter

ERRORS = "$me/errors"

log = logging.getLogger("nearcast.client")


class Commands:
    """Sends commands to the broker, and raises `RejectedError` if it refuses them."""

    def __init__(self, exchange: Exchange, mailboxes: Mailboxes) -> None:
        self._exchange = exchange
        self._mailboxes = mailboxes
        self._one_at_a_time = asyncio.Lock()
        self._errors: _Complaints | None = None
        # Accepted standing messages, for versions where acknowledgements do not confirm them.
        self._accepted: dict[str, bytes] = {}

    async def open(self) -> None:
        """Subscribe to errors, if there is no other way to get them."""
        if self._exchange.version != MQTT_5:
            self._errors = _Complaints()
            self._mailboxes.open(self._errors)
            await self._fence()

    async def send(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int = 1,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> None:
        """Publish; with QoS 1 and 2, return once it is in force."""
        if self._errors is None or not qos or not topic.startswith("$"):
            await self._exchange.publish(
                topic, payload, qos=qos, retain=retain, properties=properties
            )
            return
        async with self._one_at_a_time, self._errors.about(topic):
            await self._exchange.publish(topic, payload, qos=qos, retain=retain)
            await self._fence()

    async def state(self, topic: str, payload: bytes) -> None:
        """Publish a message that is in force as long as the session; an empty payload ends it."""
        if self._errors is None:
            await self._exchange.state(topic, payload)
            return
        async with self._one_at_a_time:
            try:
                async with self._errors.about(topic):
                    await self._exchange.state(topic, payload)
                    await self._fence()
            except RejectedError:
                # A refused message must not be sent again; the one in force before must.
                await self._exchange.state(topic, self._accepted.get(topic, b""))
                raise
            self._accepted.pop(topic, None)
            if payload:
                self._accepted[topic] = payload

    async def _fence(self) -> None:
        await self._exchange.subscribe(TopicFilter(ERRORS, 1))


class _Complaints(Mailbox):
    """Errors from the broker: raised by the command concerned, and logged otherwise."""

    def __init__(self) -> None:
        super().__init__(ERRORS, ERRORS, 1)
        self._topic: str | None = None
        self._found: str | None = None

    def put(self, event: Received) -> None:
        """Process an error; it never waits for a reader."""
        problem = problem_of(event)
        if problem.warning:
            log_event(log, logging.WARNING, "warning", topic=problem.topic, why=problem.warning)
        elif problem.topic == self._topic and self._found is None:
            self._found = problem.error
        else:
            log_event(log, logging.WARNING, "refused", topic=problem.topic, why=problem.error)

    @contextlib.asynccontextmanager
    async def about(self, topic: str) -> AsyncIterator[None]:
        """Raise at the end the error about messages to a topic, if one came."""
        self._topic, self._found = topic, None
        try:
            yield
        finally:
            self._topic = None
        if self._found is not None:
            raise RejectedError(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, self._found)


class Problem(msgspec.Struct, frozen=True):
    """A problem of the broker with a message or a subscription of this session."""

    error: str = ""
    """Why a request was refused."""
    topic: str = ""
    """The topic of the message, or of the subscription."""
    warning: str = ""
    """Why an accepted request will have no effect."""


def problem_of(event: Received) -> Problem:
    """Return the problem in a message on `$me/errors`."""
    try:
        found = msgspec.json.decode(event.payload, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = Problem()
    if found.error or found.warning:
        return found
    return Problem(event.payload.decode(errors="replace"))
