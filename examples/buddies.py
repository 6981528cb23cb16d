"""Two buddies want to know when they are in the same street; their phones keep silent till then.

Each phone has a fix every moment, and reports it only when it leaves a region that the broker told
it: inside, the two cannot have met. Whoever subscribes is told as if every fix had been reported.

Prints:

    apart
    near
    apart
    480 fixes, less than one message for five of them: True
"""

import asyncio
from collections.abc import AsyncIterator

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.server import Server

NORTH = 1 / 111_200
"""About so many degrees of latitude are a metre."""


async def walk(start_m: int, speed_mps: float) -> AsyncIterator[tuple[float, float]]:
    """Walk along a street for four minutes, a hundred times as fast as usual."""
    for second in range(240):
        yield 53.35 + (start_m + speed_mps * second) * NORTH, -6.26
        await asyncio.sleep(0.01)


async def main() -> None:
    """Let the two walk towards each other, and past each other."""
    server = Server(Settings(listen=ListenSection(mqtt_port=0, ws_port=-1)))
    await server.start()
    url = f"mqtt://127.0.0.1:{server.port}"
    async with (
        nc.connect(url, node="mother") as mother,
        nc.connect(url, node="ann") as ann,
        nc.connect(url, node="ben") as ben,
    ):
        await mother.relate("buddies", [ann, ben], within=50)
        async with mother.relation("buddies") as states:
            both = await asyncio.gather(
                ann.follow(walk(0, 2.0), accuracy_m=None),
                ben.follow(walk(500, -2.0), accuracy_m=None),
            )
            for _ in range(3):
                print((await anext(states)).state)
        fixes, messages = sum(each.fixes for each in both), sum(each.reports for each in both)
        print(f"{fixes} fixes, less than one message for five of them: {messages < fixes / 5}")
    await server.stop()


asyncio.run(main())
