"""A field worker with little battery left gets what matters most first, and the rest later.

Its filter has three atoms, and its relevance vector says how much each of them matters. A policy
classifies the battery. What waited while the worker was away is put in order again when its context
changes, without matching anything again.

Prints:

    with a full battery: road 1, water 1, fire 1
    with little battery: fire 1, water 2, road 3
"""

import asyncio

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.server import Server

WHERE = "kind = 'fire' OR kind = 'water' OR kind = 'road'"
BATTERY = {"attribute": "battery", "intervals": [[None, 20], [20, 50], [50, None]]}


async def main() -> None:
    """Publish three reports while the worker is away, twice."""
    server = Server(Settings(listen=ListenSection(mqtt_port=0, ws_port=-1)))
    await server.start()
    url = f"mqtt://127.0.0.1:{server.port}"
    async with nc.connect(url, node="office") as office:
        await office.set_policy("awareness", "default", {"modules": {"battery": BATTERY}})
        for battery, label in ((90, "with a full battery"), (8, "with little battery")):
            async with worker(url) as me, reports(me):
                await me.context(battery=90)
            for kind in ("road", "water", "fire"):
                await office.publish("report", {"kind": kind})
            async with nc.connect(url, node="worker", part="watch") as watch:
                await watch.context(battery=battery)
            async with worker(url) as me, reports(me) as events:
                got = [await anext(events) for _ in range(3)]
            told = ", ".join(f"{each.attributes['kind']} {each.priority}" for each in got)
            print(f"{label}: {told}")
    await server.stop()


def worker(url: str) -> nc.Node:
    """Connect with a session that lasts."""
    return nc.connect(url, node="worker", resume=True)


def reports(me: nc.Node) -> nc.Stream[nc.Received]:
    """Fires matter most, roads least."""
    return me.subscribe("report", where=WHERE, relevance=[1, 0.6, 0.2], name="reports", keep=True)


asyncio.run(main())
