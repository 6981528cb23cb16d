"""A raw client in a WebSocket, which lets a test cut frames as it likes."""

import base64
import hashlib
import os
import socket

from tests.support.clients.raw_client import WAIT_S, RawClient

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_ANSWER = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebSocketClient(RawClient):
    """Packets in binary frames; `frames` are the kinds and sizes of those that came."""

    def __init__(self, port: int, offered: str | None = "mqtt", version: int = 5) -> None:
        super().__init__(port, version)
        self.frames: list[tuple[int, int]] = []
        self.status, self.headers = self._shake_hands(port, offered)

    def send_frame(self, kind: int, data: bytes, *, last: bool = True) -> None:
        """Send a frame of any kind."""
        size = len(data)
        if size < 126:
            length = bytes([0x80 | size])
        elif size < 1 << 16:
            length = bytes([0x80 | 126]) + size.to_bytes(2, "big")
        else:
            length = bytes([0x80 | 127]) + size.to_bytes(8, "big")
        mask = os.urandom(4)
        hidden = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self.socket.sendall(bytes([last << 7 | kind]) + length + mask + hidden)

    def _write(self, data: bytes) -> None:
        self.send_frame(BINARY, data)

    def _read(self) -> bytes:
        """The data of the next binary frame; nothing when the connection is closed."""
        while True:
            head = self._exactly(2)
            if len(head) < 2:
                return b""
            kind, size = head[0] & 0x0F, head[1] & 0x7F
            assert not head[1] & 0x80, "a server does not mask"
            if size >= 126:
                size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
            data = self._exactly(size)
            self.frames.append((kind, size))
            if kind in (BINARY, CONTINUATION) and data:
                return data

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                break
            data += more
        return data

    def _shake_hands(self, port: int, offered: str | None) -> tuple[int, dict[str, str]]:
        key = base64.b64encode(os.urandom(16))
        lines = [
            "GET /mqtt HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key.decode()}",
            "Sec-WebSocket-Version: 13",
        ]
        if offered is not None:
            lines.append(f"Sec-WebSocket-Protocol: {offered}")
        self.socket.settimeout(WAIT_S)
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            more = self.socket.recv(1, socket.MSG_WAITALL)
            if not more:
                break
            answer += more
        first, *rest = answer.decode().strip().split("\r\n")
        headers = {}
        for line in rest:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        status = int(first.split()[1])
        if status == 101:
            expected = base64.b64encode(hashlib.sha1(key + _ANSWER).digest()).decode()
            assert headers["sec-websocket-accept"] == expected
        return status, headers
