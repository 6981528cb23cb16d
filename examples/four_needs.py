"""Four needs: traffic of five minutes, five hazards, ten strangers or one friend, and distance.

The last two depend on the contexts of both sides as they are now: what waits is judged anew when
a stranger becomes a friend, and when somebody comes nearer.

Prints:

    traffic: 3 speeds, 40 km/h on average
    hazards: 5
    spots: friend ann at once
    spots: 10 strangers
    spots: p1 became a friend
    crowd: 2 messages of ben, who came nearer
"""

import asyncio

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.server import Server

FRIENDS_FIRST = {"case": [["friend(publisher)", "volume 1"]], "else": "people 10"}
BY_DISTANCE = {"volume": "distance(me, publisher)", "wait": 600}


async def main() -> None:
    """Show one subscriber with four needs."""
    server = Server(Settings(listen=ListenSection(mqtt_port=0, ws_port=-1)))
    await server.start()
    url = f"mqtt://127.0.0.1:{server.port}"
    async with nc.connect(url, node="eve") as me:
        await me.move(53.3400, -6.2600)
        await traffic(url, me)
        await hazards(url, me)
        await spots(url, me)
        await crowd(url, me)
    await server.stop()


async def traffic(url: str, me: nc.Node) -> None:
    """Speeds wait until the newest is 300 s younger than the oldest."""
    async with (
        nc.connect(url, node="car") as car,
        me.subscribe("traffic", aggregate="time 300") as events,
    ):
        for minute, speed in ((0, 30), (3, 50), (5, 40)):
            time = f"2026-01-01T08:{minute:02}:00Z"
            await car.publish("traffic", {"speed": speed}, time=time)
        event = await anext(events)
    mean = event.attributes["attributes"]["speed"]["mean"]
    print(f"traffic: {event.count} speeds, {mean:.0f} km/h on average")


async def hazards(url: str, me: nc.Node) -> None:
    """Hazards wait until there are five."""
    async with (
        nc.connect(url, node="car") as car,
        me.subscribe("hazard", aggregate="volume 5") as events,
    ):
        for number in range(5):
            await car.publish("hazard", {"bump": number})
        print(f"hazards: {(await anext(events)).count}")


async def spots(url: str, me: nc.Node) -> None:
    """Strangers wait until they are ten, friends come at once."""
    async with (
        nc.connect(url, node="ann") as ann,
        me.subscribe("spot", aggregate=FRIENDS_FIRST) as events,
    ):
        await ann.context(friends=["eve"])
        await ann.publish("spot", {"at": "Joe's"})
        print(f"spots: friend {(await anext(events)).publisher} at once")
        for number in range(10):
            async with nc.connect(url, node=f"p{number}") as stranger:
                await stranger.publish("spot", {"at": "Joe's"})
        print(f"spots: {len((await anext(events)).attributes['people'])} strangers")
        async with nc.connect(url, node="p1") as stranger:
            await stranger.publish("spot", {"at": "Sue's"})
            await stranger.context(friends=["eve"])
        print(f"spots: {(await anext(events)).publisher} became a friend")


async def crowd(url: str, me: nc.Node) -> None:
    """As many metres away, as many messages are needed."""
    async with (
        nc.connect(url, node="ben") as ben,
        me.subscribe("crowd", aggregate=BY_DISTANCE) as events,
    ):
        await ben.move(53.3401, -6.2600)
        for number in range(2):
            await ben.publish("crowd", {"number": number})
        await ben.move(53.340015, -6.2600)
        event = await anext(events)
        print(f"crowd: {event.count} messages of ben, who came nearer")


asyncio.run(main())
