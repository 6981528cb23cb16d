"""A driver hears of hazards when five were reported, and of a place when two people are there.

What matches a subscription that gathers waits in the broker, and comes as one message with all that
is alike said once.

Prints:

    5 hazards on n11: grip 0.1 to 0.5, ice
    2 people in town: ann, bob
"""

import asyncio

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.server import Server


async def main() -> None:
    """Report five hazards and two people."""
    server = Server(Settings(listen=ListenSection(mqtt_port=0, ws_port=-1)))
    await server.start()
    url = f"mqtt://127.0.0.1:{server.port}"
    async with (
        nc.connect(url, node="driver") as driver,
        nc.connect(url, node="ann") as ann,
        nc.connect(url, node="bob") as bob,
        driver.subscribe("hazard/+", aggregate="volume 5 wait 600") as hazards,
        driver.subscribe("spot/+", aggregate="people 2") as spots,
    ):
        for number in range(1, 6):
            await ann.publish("hazard/n11", {"kind": "ice", "grip": number / 10})
        together = (await anext(hazards)).attributes
        said = together["attributes"]
        grip = said["grip"]
        print(
            f"{together['count']} hazards on n11: grip {grip['min']} to {grip['max']}, "
            f"{said['kind']}"
        )
        await ann.publish("spot/town", {})
        await bob.publish("spot/town", {})
        people = (await anext(spots)).attributes["people"]
        print(f"{len(people)} people in town: {', '.join(people)}")
    await server.stop()


asyncio.run(main())
