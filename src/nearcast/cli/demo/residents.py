"""Residents: the small city as clients of a broker, each with a connection of its own.

In addition to the simulated life, people rate the spots where they are, and some subscribe to such
spots and to traffic: both are decided by the pipeline.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice

from nearcast.cli.demo.city_scene import CityScene
from nearcast.client.api.node import Node, connect
from nearcast.client.receive.received import Received
from nearcast.client.receive.streams import Stream
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import (
    Announced,
    ContextPatched,
    Input,
    Moved,
    PlaceDefined,
    Published,
    Subscribed,
)

SECOND_S = 1.0
VISIT_S = 20
"""How often each person rates the spot where it is, in seconds."""
CURIOUS = {"person": "spots/#", "car": "traffic/#"}
"""Subjects decided by the pipeline that some residents subscribe to, by kind."""
MOST_CURIOUS = 3


class Residents:
    """Runs a city's life through a broker, and reports messages to a scene."""

    def __init__(self, url: str, scene: CityScene) -> None:
        self._url = url
        self._scene = scene
        self._life = scene.life
        self._nodes: dict[str, Node] = {}

    async def live(self) -> None:
        """Connect all residents, and run until cancelled."""
        try:
            async with asyncio.TaskGroup() as hearing:
                for name in self._life.residents:
                    self._nodes[name] = connect(self._url, node=name)
                    await self._nodes[name].open()
                for value in (*self._life.arrivals(), *self._subscriptions()):
                    await self._do(value, hearing)
                await self._pass_time(hearing)
        finally:
            await asyncio.gather(
                *(node.close() for node in self._nodes.values()), return_exceptions=True
            )

    async def _pass_time(self, hearing: asyncio.TaskGroup) -> None:
        second = 0
        while True:
            second += 1
            for value in (*self._life.second(second), *self._visits(second)):
                await self._do(value, hearing)
            await asyncio.sleep(SECOND_S)

    def _subscriptions(self) -> Iterator[Input]:
        for kind, subject in CURIOUS.items():
            found = (each.node for each in self._life.residents.values() if each.kind == kind)
            for node in islice(found, MOST_CURIOUS):
                yield Subscribed(Subscription(f"{node}/{subject}", node, subject))

    def _visits(self, second: int) -> Iterator[Input]:
        for number, node in enumerate(self._life.people):
            if (second + 7 * number) % VISIT_S == 0:
                stars = {"stars": 1 + (second + number) % 5}
                yield Published(Event(f"{node} {second}", "spots/visit", node, second, stars))

    async def _do(self, value: Input, hearing: asyncio.TaskGroup) -> None:
        """Send to the broker what would be an input of the engine."""
        nodes = self._nodes
        if isinstance(value, Moved) and value.position is not None:
            await nodes[value.node].move(value.position.lat, value.position.lon)
        elif isinstance(value, ContextPatched):
            await nodes[value.node].update(value.patch)
        elif isinstance(value, Announced):
            announcement = value.announcement
            await nodes[announcement.node].announce(announcement.subject, to=announcement.to)
        elif isinstance(value, PlaceDefined) and value.geometry is not None:
            await next(iter(nodes.values())).define_place(
                value.place_kind, value.name, value.geometry
            )
        elif isinstance(value, Published):
            event = value.event
            self._scene.note_sent(event)
            await nodes[event.publisher].publish(
                event.subject,
                dict(event.attributes),
                at=event.position if event.at_given else None,
                to=event.to,
                valid=event.valid_s,
                object=event.object,
                retain=event.retain,
            )
        elif isinstance(value, Subscribed):
            await self._subscribe(value, hearing)

    async def _subscribe(self, value: Subscribed, hearing: asyncio.TaskGroup) -> None:
        wanted = value.subscription
        stream = self._nodes[wanted.node].subscribe(
            wanted.subject,
            where=None if wanted.where is None else wanted.where.to_text(),
            from_=wanted.from_,
        )
        # It ends with the connection.
        await stream.open()
        hearing.create_task(self._hear(wanted.node, stream))

    async def _hear(self, node: str, stream: Stream[Received]) -> None:
        async for event in stream:
            self._scene.note_received(node, event)
