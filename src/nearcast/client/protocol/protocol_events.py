"""What a client learns from its server, in the order in which it came."""

from msgspec import Struct

from nearcast.wire.mqtt import NO_PROPERTIES, Properties, Publish, ReasonCode


class Connected(Struct, frozen=True):
    """The server let the client in; `session_present`: it remembers the session."""

    session_present: bool
    properties: Properties = NO_PROPERTIES


class ConnectRefused(Struct, frozen=True):
    """The server refused the client; the transport is to be closed."""

    reason_code: ReasonCode
    text: str = ""
    server_reference: str | None = None


class MessageReceived(Struct, frozen=True):
    """A message of somebody; its topic is whole, a topic alias is resolved and gone."""

    publish: Publish


class Acknowledged(Struct, frozen=True):
    """A message of QoS 1 or 2 was accepted by the server, or refused if the code says so.

    For QoS 0 it comes only when the message cannot be sent to this server.
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
    """The answer to filters that were subscribed again, since the session was forgotten."""

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
    """The server broke the protocol or fell silent; the transport is to be closed."""

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
