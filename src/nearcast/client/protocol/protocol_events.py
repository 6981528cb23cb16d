"""Events of a client's protocol, in order of arrival."""

from msgspec import Struct

from nearcast.wire.mqtt import NO_PROPERTIES, Properties, Publish, ReasonCode


class Connected(Struct, frozen=True):
    """The server accepted the client; `session_present`: it has the session."""

    session_present: bool
    properties: Properties = NO_PROPERTIES


class ConnectRefused(Struct, frozen=True):
    """The server refused the client; the transport is to be closed."""

    reason_code: ReasonCode
    text: str = ""
    server_reference: str | None = None


class MessageReceived(Struct, frozen=True):
    """A message was received; its topic alias, if any, is resolved and removed."""

    publish: Publish


class Acknowledged(Struct, frozen=True):
    """A message of QoS 1 or 2 was accepted by the server, or refused, by its reason code.

    For QoS 0 it comes only if the message cannot be sent to this server.
    """

    token: int
    reason_code: ReasonCode
    text: str = ""


class SubscribeAcknowledged(Struct, frozen=True):
    """The answer to `subscribe`: one code for each filter, in order."""

    token: int
    reason_codes: tuple[ReasonCode, ...]
    text: str = ""


class Resubscribed(Struct, frozen=True):
    """The answer to filters that were subscribed again, since the session was lost."""

    filters: tuple[str, ...]
    reason_codes: tuple[ReasonCode, ...]
    text: str = ""


class Restated(Struct, frozen=True):
    """The answer to a standing message that was sent again, since the session was lost."""

    topic: str
    reason_code: ReasonCode
    text: str = ""


class UnsubscribeAcknowledged(Struct, frozen=True):
    """The answer to `unsubscribe`; MQTT 3 has no codes in it."""

    token: int
    reason_codes: tuple[ReasonCode, ...] = ()
    text: str = ""


class Disconnected(Struct, frozen=True):
    """The server sent a DISCONNECT; the transport is to be closed."""

    reason_code: ReasonCode
    text: str = ""
    server_reference: str | None = None


class ProtocolBroken(Struct, frozen=True):
    """The server violated the protocol or did not answer; the transport is to be closed."""

    reason_code: ReasonCode
    text: str = ""


Happened = (
    Connected
    | ConnectRefused
    | MessageReceived
    | Acknowledged
    | SubscribeAcknowledged
    | Resubscribed
    | Restated
    | UnsubscribeAcknowledged
    | Disconnected
    | ProtocolBroken
)
