"""What can be wrong with what a program asks of a client."""

from nearcast.errors import NearcastError
from nearcast.wire.mqtt import ReasonCode


class ClientError(NearcastError):
    """Something that a client was asked to do and did not."""


class OptionsError(ClientError, ValueError):
    """Options that cannot be: a version that is none, a time that is too long."""


class QueueFullError(ClientError):
    """As much waits to be sent or acknowledged as may; nothing was queued."""


class RejectedError(ClientError):
    """The server said no, or has said before that it would."""

    def __init__(self, reason_code: ReasonCode, text: str = "") -> None:
        super().__init__(reason_code, text)
        self.reason_code = reason_code
        self.text = text

    def __str__(self) -> str:
        code = f"{self.reason_code.text} (0x{self.reason_code:02X})"
        return f"{code}: {self.text}" if self.text else code


class ConnectionLostError(ClientError):
    """The server cannot be reached, or has said that it will not be."""


class BacklogError(ClientError):
    """An answer cannot be read, as too many messages stand before it that nobody reads."""


class AddressError(ClientError, ValueError):
    """A URL that names no server."""
