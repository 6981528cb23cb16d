"""Errors that a client raises."""

from nearcast.errors import NearcastError
from nearcast.wire.mqtt import ReasonCode


class ClientError(NearcastError):
    """A request that a client could not carry out."""


class OptionsError(ClientError, ValueError):
    """Invalid options, such as an unknown version or a time that is too long."""


class QueueFullError(ClientError):
    """The limit of messages waiting to be sent or acknowledged is reached; nothing was queued."""


class RejectedError(ClientError):
    """The server refused the request, or has announced that it would."""

    def __init__(self, reason_code: ReasonCode, text: str = "") -> None:
        super().__init__(reason_code, text)
        self.reason_code = reason_code
        self.text = text

    def __str__(self) -> str:
        code = f"{self.reason_code.text} (0x{self.reason_code:02X})"
        return f"{code}: {self.text}" if self.text else code


class ConnectionLostError(ClientError):
    """The server cannot be reached, or the connection is closed for good."""


class BacklogError(ClientError):
    """An answer cannot be read, because too many unread messages come before it."""


class AddressError(ClientError, ValueError):
    """An invalid URL of a server."""
