"""A link that is too thin: a TCP proxy in user space that passes so many bits a second.

Its buffers and the client's are as small as the system allows, so that what waits does so at the
broker. What they can hold is measured, not assumed.
"""

import contextlib
import socket
import struct
import threading
import time

from msgspec import Struct

PIECE_BYTES = 256
SEGMENT_BYTES = 536
SMALL_BUFFER_BYTES = 1
"""The system gives its smallest."""
FILL_S = 0.5
_ACKNOWLEDGED = struct.Struct("=120xQ")


class BufferFigures(Struct, frozen=True):
    """What lies between the broker's socket and the client."""

    receive_bytes: int
    """Given to the proxy towards the broker, with the system's overhead for each packet."""
    send_bytes: int
    """Given to the proxy towards the client."""
    client_receive_bytes: int
    held_bytes: int
    """What all of it took when the client did not read."""


class ThinProxy:
    """Passes connections on to a port, at a rate from there and at any rate to it."""

    def __init__(self, port: int, kbps: float) -> None:
        self._port = port
        self._bytes_per_s = kbps * 125.0
        self._listener = socket.socket()
        shrink(self._listener)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self._sockets: list[socket.socket] = []
        self.buffers = (0, 0)
        """The sizes of its buffers, to receive from the port and to send to the client."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self._listener.getsockname()[1])

    def recover(self) -> None:
        """Pass everything at once from now on."""
        self._bytes_per_s = float("inf")

    def close(self) -> None:
        """Cut all connections."""
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket()
            shrink(far)
            far.connect(("127.0.0.1", self._port))
            self._sockets += [near, far]
            for each in (near, far):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.buffers = receive_buffer(far), send_buffer(near)
            threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, thin: bool) -> None:
        free_at = time.monotonic()
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE_BYTES if thin else 65_536):
                if thin:
                    free_at = max(free_at, time.monotonic()) + len(data) / self._bytes_per_s
                    time.sleep(max(0.0, free_at - time.monotonic()))
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def shrink(each: socket.socket) -> None:
    """Give a socket the smallest buffers, and segments that fit into them."""
    each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
    each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER_BYTES)
    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)


def receive_buffer(each: socket.socket) -> int:
    """The size of a socket's receive buffer."""
    return each.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def send_buffer(each: socket.socket) -> int:
    """The size of a socket's send buffer."""
    return each.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def measure_buffers() -> BufferFigures:
    """Fill a proxy whose client does not read, from a server that is not the broker."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        proxy = ThinProxy(server.getsockname()[1], float("inf"))
        shrink(client)
        client.connect(("127.0.0.1", proxy.port))
        source, _ = server.accept()
        with source:
            source.settimeout(FILL_S)
            with contextlib.suppress(TimeoutError):
                while True:
                    source.sendall(bytes(1 << 20))
            info = source.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
            held = int(_ACKNOWLEDGED.unpack_from(info)[0])
            proxy.close()
            return BufferFigures(*proxy.buffers, receive_buffer(client), held)
