"""Errors of received bytes, and of packets that cannot be encoded."""

from typing import TYPE_CHECKING

from nearcast.errors import NearcastError
from nearcast.wire.mqtt.reason_codes import ReasonCode

if TYPE_CHECKING:
    from nearcast.wire.mqtt.packets import Packet


class ProtocolError(NearcastError):
    """Bytes that are not valid MQTT: the problem, its place, and the reason code to close with.

    `packets` are those that were complete before the error in the same call of `feed`.
    """

    def __init__(self, reason_code: ReasonCode, message: str, where: str) -> None:
        super().__init__(reason_code, message, where)
        self.reason_code = reason_code
        self.message = message
        self.where = where
        self.packets: list[Packet] = []

    def __str__(self) -> str:
        return f"{self.where}: {self.message} (0x{self.reason_code:02X} {self.reason_code.text})"


class EncodeError(NearcastError, ValueError):
    """A packet that MQTT cannot carry, such as a text too long or a property not allowed."""


def malformed(message: str, where: str) -> ProtocolError:
    """Return the error for bytes that cannot be parsed by the specification."""
    return ProtocolError(ReasonCode.MALFORMED_PACKET, message, where)


def forbidden(message: str, where: str) -> ProtocolError:
    """Return the error for bytes that can be parsed but violate the protocol."""
    return ProtocolError(ReasonCode.PROTOCOL_ERROR, message, where)
