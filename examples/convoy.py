"""Two trucks are a convoy while they are within 100 m of each other, and a third party is told.

The dispatcher names them once. The broker compares them whenever one reports where it is; nobody
polls, and whoever subscribes later gets the state of now first.

Prints:

    apart
    near, 45 m
    apart, 156 m
    it ended: apart
"""

import asyncio

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.server import Server

NORTH = 1 / 111_200
"""About so many degrees of latitude are a metre."""


async def main() -> None:
    """Let one truck drive up to the other, and away from it."""
    server = Server(Settings(listen=ListenSection(mqtt_port=0, ws_port=-1)))
    await server.start()
    url = f"mqtt://127.0.0.1:{server.port}"
    async with (
        nc.connect(url, node="dispatch") as dispatch,
        nc.connect(url, node="truck-1") as first,
        nc.connect(url, node="truck-2") as second,
    ):
        await dispatch.relate("convoy", [first, second], within=100)
        async with dispatch.relation("convoy") as states:
            print((await anext(states)).state)
            await first.move(53.35, -6.26)
            for metres in (500, 45, 80, 156):
                await second.move(53.35 + metres * NORTH, -6.26)
            for _ in range(2):
                now = await anext(states)
                print(f"{now.state}, {now.distance:.0f} m")
            await second.move(53.35, -6.26)
            await anext(states)
            await dispatch.unrelate("convoy")
            last = await anext(states)
            print(f"it ended: {last.state}" if last.ended else last)
    await server.stop()


asyncio.run(main())
