"""Who is in the yard? A gate watches an area and is told who comes in and who goes out.

Only trucks count: a filter over what nodes say of themselves. A truck that is there when the watch
begins is not told; it did not come.

Prints:

    truck-1 in
    truck-2 in
    truck-1 out
    truck-1 is empty
"""

import asyncio

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.server import Server

YARD = nc.box(53.340, -6.200, 53.345, -6.190)
INSIDE, ROAD = (53.342, -6.195), (53.350, -6.195)


async def main() -> None:
    """Let trucks and a car pass the gate."""
    server = Server(Settings(listen=ListenSection(mqtt_port=0, ws_port=-1)))
    await server.start()
    url = f"mqtt://127.0.0.1:{server.port}"
    async with (
        nc.connect(url, node="gate") as gate,
        nc.connect(url, node="truck-1") as one,
        nc.connect(url, node="truck-2") as two,
        nc.connect(url, node="car") as car,
    ):
        for node, kind in ((one, "truck"), (two, "truck"), (car, "car")):
            await node.context(kind=kind, load="full")
            await node.move(*ROAD)
        async with gate.watch(YARD, nodes="kind = 'truck'") as sightings:
            for node in (one, car, two):
                await node.move(*INSIDE)
            await one.context(load="empty")
            await one.move(*ROAD)
            for _ in range(3):
                sighting = await anext(sightings)
                print(sighting.node, sighting.state)
        known = await gate.read("truck-1")
        print(known.node, "is", known.context["load"])
    await server.stop()


if __name__ == "__main__":
    asyncio.run(main())
