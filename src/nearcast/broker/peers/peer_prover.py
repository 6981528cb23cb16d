"""Proving the addresses of peers: a challenge that only the client of a connection can answer.

Only addresses at the client's own host are tried, each once for a connection, a few at a time and
each for a short time: a broker does not scan ports for anybody.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable

from nearcast.broker.peers.peer_chains import PeerChains, PeerOffer
from nearcast.logs import log_event
from nearcast.wire.peer_frames import (
    CHALLENGE,
    KEY_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    host_and_port,
)

WITHIN_S = 5.0
AT_ONCE = 32
MOST_WAITING = 1_000
"""Beyond that, clients that offer an address are told to come again later."""

log = logging.getLogger("nearcast.broker")


class PeerProver:
    """Asks at the addresses that clients offered."""

    def __init__(self, peers: PeerChains, tick: Callable[[], None]) -> None:
        """`tick` writes what a client is told."""
        self._peers = peers
        self._tick = tick
        self._room = asyncio.Semaphore(AT_ONCE)
        self._running: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Ask at the addresses that were offered since the last call."""
        offers, self._peers.offers = self._peers.offers, []
        for offer in offers:
            if len(self._running) >= MOST_WAITING:
                self._peers.refused(offer, "too many clients offer addresses; connect again later")
                continue
            task = asyncio.get_running_loop().create_task(self._prove(offer))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """Ask no more."""
        for task in self._running:
            task.cancel()

    async def _prove(self, offer: PeerOffer) -> None:
        host, port = host_and_port(offer.address)
        nonce = offer.nonce(os.urandom(NONCE_BYTES))
        try:
            async with self._room, asyncio.timeout(WITHIN_S):
                key, proof = await _answer(host, port, nonce)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            self._refuse(offer, f"{host}:{port} did not answer the challenge: {error!r}")
        else:
            if offer.is_proved(nonce, key, proof):
                self._peers.proved(offer, key)
            else:
                self._refuse(offer, f"{host}:{port} answered the challenge wrongly")
        self._tick()

    def _refuse(self, offer: PeerOffer, why: str) -> None:
        log_event(log, logging.INFO, "no peer", client=offer.connection.peer.address, why=why)
        self._peers.refused(offer, why)


async def _answer(host: str, port: int, nonce: bytes) -> tuple[bytes, bytes]:
    """Return the key and the proof that somebody at an address answers with."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(CHALLENGE + nonce)
        answer = await reader.readexactly(KEY_BYTES + PROOF_BYTES)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return answer[:KEY_BYTES], answer[KEY_BYTES:]
