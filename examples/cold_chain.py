"""Three boxes of one cold chain should have one temperature: tell when any of them drifts.

The distance of a relationship may be the difference of a number in contexts. Here it is near while
all three readings are within 2 degrees, and `where` leaves out boxes whose lid is open.

Prints:

    near: all within 0.5
    apart: one is 3.5 away
    near: all within 1.0
    apart: a lid is open
"""

import asyncio

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.server import Server

BOXES = ("box-1", "box-2", "box-3")


async def main() -> None:
    """Let a box become warm and cold again, and open another."""
    server = Server(Settings(listen=ListenSection(mqtt_port=0, ws_port=-1)))
    await server.start()
    url = f"mqtt://127.0.0.1:{server.port}"
    async with (
        nc.connect(url, node=BOXES[0]) as one,
        nc.connect(url, node=BOXES[1]) as two,
        nc.connect(url, node=BOXES[2]) as three,
    ):
        for box, degrees in ((one, 4.0), (two, 4.5), (three, 4.5)):
            await box.context(lid="shut", cargo={"temperature": degrees})
        await one.relate("cold", BOXES, within=2, of="cargo.temperature", where="lid = 'shut'")
        async with one.relation("cold") as states:
            print(f"near: all within {(await anext(states)).distance}")
            await three.context(cargo={"temperature": 7.5})
            print(f"apart: one is {(await anext(states)).distance} away")
            await three.context(cargo={"temperature": 5.0})
            print(f"near: all within {(await anext(states)).distance}")
            await two.context(lid="open")
            assert (await anext(states)).distance is None
            print("apart: a lid is open")
    await server.stop()


asyncio.run(main())
