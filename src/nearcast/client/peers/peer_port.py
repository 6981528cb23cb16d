"""A peer's port: answers the broker's challenge, takes what others pass on, and passes on.

Hops are kept open for a while, since neighbours stay neighbours. Everything is bounded in size,
time and number; whatever goes wrong ends the hop, and the broker notices that nobody confirmed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from nearcast.client.peers.peer_identity import FreshKey, HopCipher, PeerIdentity, is_signed_hop
from nearcast.logs import log_event
from nearcast.wire.encoding.errors import DecodingError
from nearcast.wire.peer_frames import (
    CHALLENGE,
    CREDENTIAL_BYTES,
    GREETING,
    KEY_BYTES,
    LARGEST_FRAME,
    NONCE_BYTES,
    SIGNATURE_BYTES,
    host_and_port,
)

HANDSHAKE_S = 5.0
IDLE_S = 60.0
MOST_HOPS_IN, MOST_HOPS_OUT = 64, 64
_LENGTH_BYTES = 4
_TO, _FROM = b"to", b"from"

log = logging.getLogger("nearcast.client")
_FAILURES = (OSError, TimeoutError, asyncio.IncompleteReadError, DecodingError)


class _Hop:
    """A connection to a peer that messages are passed on to."""

    def __init__(self, writer: asyncio.StreamWriter, cipher: HopCipher) -> None:
        self.writer = writer
        self.cipher = cipher


class PeerPort:
    """The listener of a peer, and its hops to others."""

    def __init__(
        self, address: bytes, identity: PeerIdentity, receive: Callable[[bytes], None]
    ) -> None:
        """`receive` takes each chain message that somebody passed on."""
        self._address = address
        self._identity = identity
        self._receive = receive
        self._server: asyncio.Server | None = None
        self._incoming: set[asyncio.StreamWriter] = set()
        self._hops: dict[bytes, _Hop] = {}
        self._turns: dict[bytes, asyncio.Lock] = {}
        self.passed_on = self.failed = 0
        """Messages that were passed on, and that could not be."""

    async def open(self) -> None:
        """Listen on the port of the address."""
        _, port = host_and_port(self._address)
        self._server = await asyncio.start_server(self._serve, "0.0.0.0", port)

    async def close(self) -> None:
        """Listen no more, and end all hops."""
        if self._server is not None:
            self._server.close()
        for writer in (*self._incoming, *(hop.writer for hop in self._hops.values())):
            writer.close()
        self._hops.clear()
        if self._server is not None:
            await self._server.wait_closed()

    async def pass_on(self, address: bytes, message: bytes) -> None:
        """Send a chain message to the peer at an address, once it has proved who it is."""
        turn = self._turns.setdefault(address, asyncio.Lock())
        try:
            async with turn, asyncio.timeout(HANDSHAKE_S):
                hop = self._hops.get(address)
                if hop is None or hop.writer.is_closing():
                    hop = self._hops[address] = await self._hop_to(address)
                data = hop.cipher.encrypt(message)
                hop.writer.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
                await hop.writer.drain()
            self.passed_on += 1
        except _FAILURES as error:
            self.failed += 1
            self._end(address)
            log_event(log, logging.DEBUG, "a message was not passed on", why=repr(error))
        finally:
            if not turn.locked() and address not in self._hops:
                self._turns.pop(address, None)

    def _end(self, address: bytes) -> None:
        hop = self._hops.pop(address, None)
        if hop is not None:
            hop.writer.close()

    async def _hop_to(self, address: bytes) -> _Hop:
        if len(self._hops) >= MOST_HOPS_OUT:
            self._end(next(iter(self._hops)))
        own = self._identity.credential
        if own is None:
            raise DecodingError("this is no peer any more")
        reader, writer = await asyncio.open_connection(*host_and_port(address))
        try:
            fresh = FreshKey()
            writer.write(GREETING + own.encode() + fresh.public)
            answer = await reader.readexactly(CREDENTIAL_BYTES + KEY_BYTES + SIGNATURE_BYTES)
            credential = self._identity.checked(answer[:CREDENTIAL_BYTES])
            if credential.address != address:
                raise DecodingError("somebody else is at the address of a peer")
            other = answer[CREDENTIAL_BYTES : CREDENTIAL_BYTES + KEY_BYTES]
            hop = fresh.public + other
            if not is_signed_hop(credential, _TO + hop, answer[-SIGNATURE_BYTES:]):
                raise DecodingError("a peer did not prove its key")
            writer.write(self._identity.signed(_FROM + hop))
            return _Hop(writer, fresh.cipher(other, hop))
        except BaseException:
            writer.close()
            raise

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._incoming) >= MOST_HOPS_IN:
            writer.close()
            return
        self._incoming.add(writer)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                kind = await reader.readexactly(1)
                if kind == CHALLENGE:
                    await self._answer(reader, writer)
                    return
                if kind != GREETING:
                    raise DecodingError("neither a broker nor a peer")
                cipher = await self._greet(reader, writer)
            while True:
                async with asyncio.timeout(IDLE_S):
                    size = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
                    if size > LARGEST_FRAME:
                        raise DecodingError(f"a peer sends {size} bytes")
                    data = await reader.readexactly(size)
                self._receive(cipher.decrypt(data))
        except _FAILURES as error:
            log_event(log, logging.DEBUG, "a peer is gone", why=repr(error))
        finally:
            self._incoming.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonce = await reader.readexactly(NONCE_BYTES)
        while not self._identity.can_answer(nonce):
            # It comes over the connection to the broker, and may be later than the challenge.
            await asyncio.sleep(0.01)
        writer.write(self._identity.public + self._identity.proof(nonce))
        await writer.drain()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HopCipher:
        greeting = await reader.readexactly(CREDENTIAL_BYTES + KEY_BYTES)
        credential = self._identity.checked(greeting[:CREDENTIAL_BYTES])
        own = self._identity.credential
        if own is None:
            raise DecodingError("this is no peer any more")
        fresh, other = FreshKey(), greeting[CREDENTIAL_BYTES:]
        hop = other + fresh.public
        writer.write(own.encode() + fresh.public + self._identity.signed(_TO + hop))
        await writer.drain()
        signature = await reader.readexactly(SIGNATURE_BYTES)
        if not is_signed_hop(credential, _FROM + hop, signature):
            raise DecodingError("a peer did not prove its key")
        with contextlib.suppress(ValueError):
            return fresh.cipher(other, hop)
        raise DecodingError("a key is not valid")
