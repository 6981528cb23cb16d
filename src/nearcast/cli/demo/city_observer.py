"""The client that observes a city for the view: it subscribes like any other."""

import asyncio
from collections.abc import Callable

from nearcast.cli.demo.city_scene import CityScene
from nearcast.client.api.node import Node, connect
from nearcast.client.receive.observations import ONLINE, POSITION
from nearcast.client.receive.received import Received

NAME = "city-view"


async def observe(url: str, scene: CityScene) -> None:
    """Update a scene with all public positions, presence and events, until cancelled."""
    async with connect(url, node=NAME) as me, asyncio.TaskGroup() as streams:
        for what in (POSITION, ONLINE):
            streams.create_task(_read(me, f"$node/+/{what}", scene.note_known))
        streams.create_task(_read(me, "#", scene.note_overheard))


async def _read(me: Node, pattern: str, note: Callable[[Received], None]) -> None:
    async with me.subscribe(pattern) as stream:
        async for event in stream:
            note(event)
