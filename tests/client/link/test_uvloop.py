"""The client works on uvloop as it does on asyncio's own loop."""

import asyncio

import pytest
import uvloop

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.server import Server


@pytest.mark.parametrize("scheme", ["mqtt", "ws"])
def test_events_come_on_uvloop(scheme: str) -> None:
    async def exchange() -> object:
        server = Server(Settings(listen=ListenSection(mqtt_port=0, ws_port=0)))
        await server.start()
        url = f"{scheme}://127.0.0.1:{server.ports[scheme]}"
        async with (
            nc.connect(url, node="ann") as ann,
            nc.connect(url, node="bob") as bob,
            bob.subscribe("news") as events,
        ):
            await ann.publish("news", {"number": 1})
            event = await anext(events)
        await server.stop()
        return event.attributes

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(exchange()) == {"number": 1}
