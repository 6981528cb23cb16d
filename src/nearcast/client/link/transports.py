"""Transports to a server: TCP or WebSocket, with or without TLS."""

import asyncio
import os
import ssl
from typing import Protocol

from nearcast.client.errors import ConnectionLostError
from nearcast.client.link.address import Address


class Listener(Protocol):
    """Callbacks of a transport."""

    def received(self, data: bytes) -> None:
        """Process bytes from the server."""

    def lost(self, why: str) -> None:
        """Called once when the transport is closed; nothing follows."""

    def pause_writing(self) -> None:
        """Called when the write buffer is full."""

    def resume_writing(self) -> None:
        """Called when there is room again."""


class Transport(Protocol):
    """The interface of a transport."""

    def write(self, data: bytes) -> None:
        """Send, or buffer for sending."""

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`."""

    def resume_reading(self) -> None:
        """Resume reading."""

    def close(self) -> None:
        """Close after everything is sent."""

    def abort(self) -> None:
        """Close at once."""


async def open_transport(
    address: Address, listener: Listener, tls: ssl.SSLContext | None, within_s: float
) -> Transport:
    """Return a transport to a server, or raise `ConnectionLostError`."""
    context = (tls or ssl.create_default_context()) if address.secure else None
    try:
        async with asyncio.timeout(within_s):
            if address.websocket:
                # Not at the top: most clients never use it.
                from nearcast.client.link.websocket import open_websocket

                return await open_websocket(address, listener, context)
            loop = asyncio.get_running_loop()
            _, stream = await loop.create_connection(
                lambda: _Stream(listener), address.host, address.port, ssl=context
            )
            return stream
    except TimeoutError:
        raise ConnectionLostError(f"{address} did not answer within {within_s:g} s") from None
    except OSError as error:
        raise ConnectionLostError(f"{address}: {_error_text(error)}") from error


def _error_text(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        # The message of asyncio repeats the address.
        return os.strerror(error.errno)
    return str(error) or type(error).__name__


class _Stream(asyncio.Protocol):
    """TCP, with TLS or without."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports have other base classes.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._listener.received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.lost("it closed the connection" if error is None else _error_text(error))

    def pause_writing(self) -> None:
        self._listener.pause_writing()

    def resume_writing(self) -> None:
        self._listener.resume_writing()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()
