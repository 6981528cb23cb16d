"""An ambulance warns whoever is near, wherever it goes, and hears of slow traffic round it.

It announces once that its warnings concern the 500 m round it. The broker is in this program; in
yours it is another one, and its address is all you need.

Prints:

    parnell hears of ambulance-7 in lane 2
    ambulance-7 hears of 12 km/h, 150 m away
    airport hears of ambulance-7 in lane 1
"""

import asyncio

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.server import Server

PARNELL = (53.3524, -6.2620)
AIRPORT = (53.4264, -6.2499)


async def main() -> None:
    """Drive from Parnell Square to the airport."""
    server = Server(Settings(listen=ListenSection(mqtt_port=0, ws_port=-1)))
    await server.start()
    url = f"mqtt://127.0.0.1:{server.port}"
    async with (
        nc.connect(url, node="ambulance-7") as me,
        nc.connect(url, node="parnell") as parnell,
        nc.connect(url, node="airport") as airport,
        parnell.subscribe("emergency/#") as at_parnell,
        airport.subscribe("emergency/#") as at_airport,
        me.subscribe("traffic/#", where="speed < 20", from_=nc.circle(me, 2000)) as traffic,
    ):
        await parnell.move(*PARNELL)
        await airport.move(*AIRPORT)
        await me.move(53.3498, -6.2603)
        await me.announce("emergency/vehicle", to=nc.circle(me, 500))

        await me.publish("emergency/vehicle", {"lane": 2})
        await tell("parnell", at_parnell)

        here = nc.Position(53.3498, -6.2603)
        await airport.publish("traffic/m1", {"speed": 8})
        await parnell.publish("traffic/square", {"speed": 50})
        await parnell.publish("traffic/square", {"speed": 12}, at=(53.3511, -6.2610))
        event = await anext(traffic)
        assert event.position is not None
        away_m = round(event.position.distance_m(here), -1)
        print(f"{me.node} hears of {event.attributes['speed']} km/h, {away_m:.0f} m away")

        await me.move(*AIRPORT)
        await me.publish("emergency/vehicle", {"lane": 1})
        # Its first: the warning in lane 2 did not concern the airport.
        await tell("airport", at_airport)
    await server.stop()


async def tell(who: str, events: nc.Stream[nc.Received]) -> None:
    """Print what somebody hears next."""
    event = await anext(events)
    print(f"{who} hears of {event.publisher} in lane {event.attributes['lane']}")


if __name__ == "__main__":
    asyncio.run(main())
