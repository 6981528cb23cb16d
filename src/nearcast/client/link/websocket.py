"""A WebSocket to a server, as a transport."""

import ssl

from picows import WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from nearcast.client.errors import ConnectionLostError
from nearcast.client.link.address import Address
from nearcast.client.link.transports import Listener, Transport
from nearcast.wire.mqtt.packet_types import LARGEST_PACKET

_DATA = (WSMsgType.BINARY, WSMsgType.CONTINUATION)


async def open_websocket(
    address: Address, listener: Listener, context: ssl.SSLContext | None
) -> Transport:
    """Return a WebSocket to a server, or raise `OSError` or `ConnectionLostError`."""
    try:
        _, socket = await ws_connect(
            lambda: _Socket(listener),
            str(address),
            ssl_context=context,
            websocket_handshake_timeout=None,
            max_frame_size=LARGEST_PACKET,
            extra_headers={"Sec-WebSocket-Protocol": "mqtt"},
            logger_name="nearcast",
        )
    except WSError as error:
        raise ConnectionLostError(f"{address}: {str(error) or type(error).__name__}") from error
    assert isinstance(socket, _Socket)
    return socket


class _Socket(WSListener):
    """A WebSocket; frames and MQTT packets need not be aligned."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: WSTransport

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type in _DATA:
            self._listener.received(frame.get_payload_as_bytes())
        elif frame.msg_type in (WSMsgType.CLOSE, WSMsgType.TEXT):
            transport.disconnect()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._listener.lost("it closed the connection")

    def pause_writing(self) -> None:
        self._listener.pause_writing()

    def resume_writing(self) -> None:
        self._listener.resume_writing()

    def write(self, data: bytes) -> None:
        self._transport.send(WSMsgType.BINARY, data)

    def pause_reading(self) -> None:
        self._transport.underlying_transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.underlying_transport.resume_reading()

    def close(self) -> None:
        self._transport.send_close()
        self._transport.disconnect()

    def abort(self) -> None:
        self._transport.disconnect(graceful=False)
