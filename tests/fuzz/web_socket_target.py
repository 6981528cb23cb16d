"""WebSocket frames against a real server: lying lengths, odd opcodes, fragments, broken masks.

A broken client loses its own connection and no other: an honest one beside it is served.
"""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random

from nearcast.wire.mqtt import Connect, PingReq, PingResp, Publish, encode
from tests.support.clients.web_socket_client import WebSocketClient
from tests.support.fuzzing.fuzz_target import FuzzTarget
from tests.support.fuzzing.mutations import mutated_bytes
from tests.support.running_broker import RunningBroker

CONNECT = encode(Connect("stranger"))
EXAMPLES: dict[str, tuple[bytes, ...]] = {
    "a length with the top bit set": (b"\x82\xff" + b"\xff" * 8 + b"mask", b"x" * 100),
    "a ping in two parts": (b"\x09\x84maskabcd", b"\x80\x84maskabcd"),
    "a frame that is not masked": (b"\x82\x02\xc0\x00",),
    "a continuation of nothing": (b"\x80\x82mask\0\0",),
}


class WebSocketTarget(FuzzTarget[tuple[bytes, ...]]):
    """Pieces of bytes after the handshake of one client."""

    name = "web-socket"
    suite_cases = 400
    examples = EXAMPLES

    @contextmanager
    def opened(self) -> Iterator[None]:
        # The library reports every broken frame.
        logging.getLogger("picows").setLevel(logging.CRITICAL)
        self._broker = RunningBroker()
        self._honest = WebSocketClient(self._broker.ws_port)
        self._honest.connect(Connect("honest"))
        try:
            yield
            self._broker.validate()
        finally:
            self._honest.close()
            self._broker.stop()

    def generate(self, random: Random) -> tuple[bytes, ...]:
        pieces = [frame(random, CONNECT)] if random.random() < 0.7 else []
        pieces += [_piece(random) for _ in range(random.randint(1, 5))]
        return tuple(pieces)

    def check(self, case: tuple[bytes, ...]) -> None:
        stranger = WebSocketClient(self._broker.ws_port)
        try:
            with suppress(ConnectionError):  # it was closed in the middle
                for piece in case:
                    stranger.socket.sendall(piece)
            self._honest.send(PingReq())
            self._honest.expect(PingResp)
            with suppress(OSError):  # it is closed already
                stranger.socket.shutdown(socket.SHUT_WR)
                while stranger.socket.recv(1 << 16):
                    pass
        finally:
            stranger.close()


def frame(random: Random, data: bytes, kind: int = 2, *, last: bool = True) -> bytes:
    """Return a masked frame."""
    mask = random.randbytes(4)
    hidden = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
    size = len(data)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([last << 7 | kind]) + length + mask + hidden


def _piece(random: Random) -> bytes:
    message = encode(Publish("s/1", random.choice((b"x", b"", b"y" * 300)), 1, packet_id=1))
    match random.randrange(8):
        case 0:
            return mutated_bytes(random, frame(random, message))
        case 1:
            size = random.choice((0, 5, 1 << 16, 1 << 31, 1 << 63, (1 << 64) - 1, 1 << 20))
            return b"\x82\xff" + size.to_bytes(8, "big") + random.randbytes(random.randint(0, 50))
        case 2:
            size = random.choice((0, 1, 125, 126, 127, 0xFFFF))
            return b"\x82\xfe" + size.to_bytes(2, "big") + random.randbytes(random.randint(0, 50))
        case 3:
            kind = random.randrange(16)
            data = random.randbytes(random.choice((0, 1, 2, 125, 126, 200)))
            return frame(random, data, kind, last=random.random() < 0.5)
        case 4:
            at = random.randint(0, len(message))
            first = frame(random, message[:at], last=False)
            return first + frame(random, message[at:], 0, last=random.random() < 0.8)
        case 5:
            return bytes([0x80 | random.randrange(0x80)]) + random.randbytes(random.randint(0, 9))
        case 6:
            return b"".join(frame(random, b"", random.choice((0, 2, 9, 10))) for _ in range(50))
        case _:
            return frame(random, message)
