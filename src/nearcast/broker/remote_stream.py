"""Bytes to another broker: TCP with TLS or without in the broker's own loop, or a WebSocket.

The client's stream takes only transports of asyncio itself, and a broker runs on uvloop.
"""

import asyncio
import os
import ssl

from nearcast.client.address import Address
from nearcast.client.errors import ConnectionLostError
from nearcast.client.transports import Listener, Transport, open_transport


async def open_stream(
    address: Address, listener: Listener, tls: ssl.SSLContext | None, within_s: float
) -> Transport:
    """Return a transport to a broker, or raise `ConnectionLostError`."""
    if address.websocket:
        return await open_transport(address, listener, tls, within_s)
    context = (tls or ssl.create_default_context()) if address.secure else None
    try:
        async with asyncio.timeout(within_s):
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: _Stream(listener), address.host, address.port, ssl=context
            )
    except TimeoutError:
        raise ConnectionLostError(f"it did not answer within {within_s:g} s") from None
    except OSError as error:
        raise ConnectionLostError(_words(error)) from error
    except UnicodeError:
        raise ConnectionLostError(f"{address.host} is no name of a host") from None
    return transport


class _Stream(asyncio.Protocol):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def data_received(self, data: bytes) -> None:
        self._listener.received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.lost("it closed the connection" if error is None else _words(error))

    def pause_writing(self) -> None:
        self._listener.pause_writing()

    def resume_writing(self) -> None:
        self._listener.resume_writing()


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
