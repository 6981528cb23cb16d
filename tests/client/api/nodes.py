"""Nodes on a real broker, and where they are."""

import pytest

import nearcast as nc
from nearcast.broker.server import Server
from tests.client.servers import SOON

DUBLIN = (53.3498, -6.2603)

NORTH = (53.3698, -6.2603)
"""2.2 km further north."""

versions = pytest.mark.parametrize("version", [5, 4])


def node(server: Server, name: str, version: int = 5, **others: object) -> nc.Node:
    url = f"mqtt://127.0.0.1:{server.port}"
    return nc.connect(url, name, version=version, backoff=SOON, seed=1, **others)  # type: ignore[arg-type]


async def ended(stream: nc.Stream[nc.Received], mark: str, me: nc.Node) -> list[nc.Received]:
    """Return what comes before an event that this publishes for the purpose."""
    await me.publish(mark, "end")
    found = []
    async for event in stream:
        if event.payload == b"end":
            break
        found.append(event)
    return found


async def texts(stream: nc.Stream[nc.Received], count: int) -> list[str]:
    return [(await anext(stream)).text for _ in range(count)]
