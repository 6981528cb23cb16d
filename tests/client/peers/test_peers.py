"""Nodes that pass messages on to each other, over real sockets."""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from math import ceil
from pathlib import Path

import pytest
from msgspec.structs import replace

import nearcast as nc
from nearcast.broker.config.settings import (
    ListenSection,
    NodeSection,
    PropagationSection,
    Settings,
)
from nearcast.broker.peers.broker_key import BrokerKey
from nearcast.broker.server import Server, open_server
from nearcast.client.peers.peer_identity import FreshKey, PeerIdentity
from nearcast.wire.chain_frames import decode_chain, encode_chain
from nearcast.wire.peer_frames import (
    GREETING,
    PeerNews,
    host_and_port,
    parse_peer_address,
    token_hint,
)
from tests.client.servers import SOON, run

SUBJECT = "news/today"


PORTS = itertools.count(20_000 + os.getpid() % 100 * 100)
"""Below those that the system gives to connections."""


def free_address() -> str:
    while True:
        port = next(PORTS)
        with socket.socket() as found, contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(("0.0.0.0", port))
            return f"127.0.0.1:{port}"


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30.0):
        while not condition():
            await asyncio.sleep(0.02)


class Readers:
    """Peers and others, all subscribed to one subject."""

    def __init__(self, server: Server, stack: AsyncExitStack) -> None:
        self.server = server
        self._stack = stack
        self.nodes: list[nc.Node] = []
        self.streams: list[nc.Stream[nc.Received]] = []

    async def add(self, count: int, *, peers: bool) -> None:
        for _ in range(count):
            p2p = free_address() if peers else None
            reader = self.node(f"reader-{len(self.nodes)}", p2p)
            self.nodes.append(await self._stack.enter_async_context(reader))
            self.streams.append(await self._stack.enter_async_context(reader.subscribe(SUBJECT)))

    def node(self, name: str, p2p: str | None = None) -> nc.Node:
        url = f"mqtt://127.0.0.1:{self.server.port}"
        return nc.connect(url, name, backoff=SOON, seed=1, p2p=p2p)

    async def texts(self, count: int) -> list[list[str]]:
        async with asyncio.timeout(30.0):
            return [[(await anext(each)).text for _ in range(count)] for each in self.streams]

    def nothing_more(self) -> bool:
        return not any(node.statistics().unread for node in self.nodes)


@asynccontextmanager
async def readers(
    data: Path, plain: int, peers: int, percent: float = 10.0, degree: int = 2
) -> AsyncIterator[Readers]:
    settings = Settings(
        node=NodeSection(data=str(data)),
        listen=ListenSection(mqtt_port=0, ws_port=-1),
        propagation=PropagationSection(
            percent=percent, degree=degree, confirm_within_s=0.5, confirm_per_hop_s=0.05
        ),
    )
    server = open_server(settings)
    await server.start()
    try:
        async with AsyncExitStack() as stack:
            found = Readers(server, stack)
            await found.add(plain, peers=False)
            await found.add(peers, peers=True)
            await until(lambda: server.hub.state.peers.peers == peers)
            yield found
    finally:
        await server.stop()


async def send(writer: nc.Node, found: Readers, text: str) -> None:
    """Publish, and wait until everybody has confirmed."""
    chains = found.server.hub.state.peers
    before = chains.pushes
    await writer.publish(SUBJECT, text, qos=0)
    await until(lambda: chains.pushes > before)
    await until(lambda: not chains.open_messages)


@pytest.mark.parametrize(("percent", "degree"), [(10.0, 2), (50.0, 1), (100.0, 3)])
def test_the_server_pushes_directly_and_once_per_chain(
    percent: float, degree: int, tmp_path: Path
) -> None:
    async def work() -> None:
        async with readers(tmp_path, 3, 20, percent, degree) as found:
            async with found.node("writer") as writer:
                for number in range(4):
                    await send(writer, found, f"number {number}")
            said = [f"number {number}" for number in range(4)]
            assert await found.texts(4) == [said] * 23
            chains = found.server.hub.state.peers
            length = round(20 * percent / 100)
            assert chains.pushes == chains.chains == 4 * ceil(20 / length)
            assert (chains.direct, chains.sent_again) == (0, 0)
            assert found.nothing_more()

    run(work())


def test_encoded_messages_are_passed_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with readers(tmp_path, 0, 6, percent=50.0) as found:
            async with found.node("writer") as writer:
                text = "the same again and again " * 200
                await send(writer, found, text)
            assert await found.texts(1) == [[text]] * 6
            assert found.server.hub.state.peers.chains == 2

    run(work())


def test_peers_that_vanish_cost_time_but_no_message(tmp_path: Path) -> None:
    async def work() -> None:
        async with readers(tmp_path, 1, 12, percent=50.0, degree=1) as found:
            for each in found.nodes[1:4]:
                # Their ports go; they still read what the broker sends.
                assert each._relay is not None
                await each._relay.port.close()
            async with found.node("writer") as writer:
                for number in range(3):
                    await send(writer, found, f"number {number}")
            said = [f"number {number}" for number in range(3)]
            assert await found.texts(3) == [said] * 13
            assert found.server.hub.state.peers.sent_again > 0
            assert found.nothing_more()

    run(work())


def test_a_peer_that_comes_back_is_proved_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with readers(tmp_path, 0, 4, percent=50.0) as found:
            chains, sessions = found.server.hub.state.peers, found.server.hub.sessions
            before = [sessions[name].connection for name in ("reader-0", "reader-1")]
            for connection in before:
                assert connection is not None
                connection.host.transport.abort()  # type: ignore[attr-defined]

            def are_proved_again() -> bool:
                now = [sessions[name].connection for name in ("reader-0", "reader-1")]
                return all(each and each not in before and each.chains for each in now)

            await until(are_proved_again)
            async with found.node("writer") as writer:
                await send(writer, found, "again")
            assert await found.texts(1) == [["again"]] * 4
            assert chains.chains == 2

    run(work())


def test_a_client_at_another_address_goes_on_with_its_session_and_is_proved_there(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with readers(tmp_path, 0, 3, percent=100.0) as found:
            chains, sessions = found.server.hub.state.peers, found.server.hub.sessions
            before = sessions["reader-0"].connection
            assert before is not None
            # Its old connection is still open, as after a change of networks.
            address = free_address()
            async with found.node("reader-0", address) as moved:
                found.streams[0] = await moved.subscribe(SUBJECT).__aenter__()
                assert sessions["reader-0"].connection is not before
                assert before.closing
                await until(lambda: chains.peers == 3)
                connection = sessions["reader-0"].connection
                assert connection is not None
                assert connection.chain_address == parse_peer_address(address)
                async with found.node("writer") as writer:
                    await send(writer, found, "there")
                assert await found.texts(1) == [["there"]] * 3
                assert (chains.pushes, chains.sent_again) == (1, 0)

    run(work())


def test_only_a_proved_address_is_used(tmp_path: Path) -> None:
    async def work() -> None:
        async with readers(tmp_path, 0, 2, percent=100.0) as found:
            chains = found.server.hub.state.peers
            stranger = found.node("stranger", "192.0.2.1:4711")
            silent = found.node("silent", free_address())
            assert silent._relay is not None
            victim = found.nodes[0]._relay
            assert victim is not None
            host, port = host_and_port(victim._address)
            thief = found.node("thief", f"{host}:{port}")
            # Nobody listens for them; the thief's address is another one's port.
            silent._relay = thief._relay = None
            async with stranger, silent, thief:
                await until(lambda: not chains.offers)
                await asyncio.sleep(0.3)
                assert chains.peers == 2

    run(work())


def test_forged_repeated_and_misdirected_messages_are_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with readers(tmp_path, 0, 3, percent=100.0, degree=1) as found:
            relays = [node._relay for node in found.nodes]
            first, second = relays[0], relays[1]
            assert first is not None
            assert second is not None
            seen: list[bytes] = []
            receive = second.port._receive

            def listen(data: bytes) -> None:
                seen.append(data)
                receive(data)

            second.port._receive = listen
            async with found.node("writer") as writer:
                await send(writer, found, "true")
                if not seen:
                    # It is the first of its chain, and has it from the broker.
                    chain = found.server.hub.state.peers
                    key, address = chain._key, [second._address]
                    seen.append(encode_chain(key.chain(1, b"", address, 1)))
                message = decode_chain(seen[0])
                forged = replace(message, content=message.content.replace(b"true", b"lies"))
                longer = replace(message, members=(*message.members, first._address))
                for hostile in (message, replace(forged, number=77), replace(longer, number=78)):
                    await first.port.pass_on(second._address, encode_chain(hostile))
                await until(lambda: second.refused == 3)
            assert await found.texts(1) == [["true"]] * 3
            assert found.nothing_more()

    run(work())


def test_a_stranger_without_a_credential_gets_nowhere(tmp_path: Path) -> None:
    async def work() -> None:
        async with readers(tmp_path, 0, 2, percent=100.0) as found:
            relay = found.nodes[0]._relay
            assert relay is not None
            identity, other_broker = PeerIdentity(), BrokerKey()
            word = other_broker.credential(relay._address, identity.public)
            for greeting in (
                GREETING + word.encode() + FreshKey().public, GREETING + bytes(200), b"GET / HTTP",
            ):  # fmt: skip
                reader, writer = await asyncio.open_connection(*host_and_port(relay._address))
                writer.write(greeting)
                async with asyncio.timeout(10.0):
                    assert await reader.read() == b""
                writer.close()

    run(work())


def test_what_a_broker_tells_is_read_as_json() -> None:
    identity = PeerIdentity()
    identity.take(PeerNews(token="00ff"))
    assert identity.can_answer(token_hint(b"\x00\xff") + bytes(24))
    assert not identity.can_answer(bytes(32))
    with pytest.raises(ValueError, match="not well formed"):
        identity.take(PeerNews(token="xyz"))


@pytest.mark.parametrize("text", ["", "host:1", "1.2.3.4", "1.2.3.4:0", "1.2.3.4:65536", "::1:80"])
def test_only_an_ipv4_address_and_a_port_can_be_offered(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_peer_address(text)
    with pytest.raises(nc.OptionsError, match="p2p"):
        nc.connect("mqtt://localhost", "a", p2p=text)
