"""A reminder that waits at a phone: it speaks up near a shop, and only once a visit.

The script lives at the phone's node. It hears of every move, and publishes when the phone comes
near: what travels is one event, not a track.

Prints:

    phone~milk: buy milk (83 m)
    phone~milk: buy milk (33 m)
    visits: 2
"""

import asyncio

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.server import Server

SHOP = [-6.2600, 53.3500]
SOURCE = f"""
SHOP = {SHOP}

def on_event(event, state):
    metres = distance(event["position"], SHOP)
    near = metres < 100
    if near and not state.get("near"):
        state["visits"] = state.get("visits", 0) + 1
        publish("reminder", {{"text": "buy milk", "metres": round(metres)}})
    state["near"] = near

def round(number):
    return int(number + 0.5)

def run(args, state):
    publish("reminder/visits", state.get("visits", 0))
"""
WALK = (53.3480, 53.34925, 53.3496, 53.3520, 53.3503)


async def main() -> None:
    """Walk past the shop twice."""
    server = Server(Settings(listen=ListenSection(mqtt_port=0, ws_port=-1)))
    await server.start()
    async with (
        nc.connect(f"mqtt://127.0.0.1:{server.port}", node="phone") as phone,
        phone.subscribe("reminder") as reminders,
        phone.subscribe("reminder/visits") as visits,
    ):
        await phone.add_script("milk", SOURCE, events=["fix"])
        for latitude in WALK:
            await phone.publish("fix", at=(latitude, SHOP[0]))
        for _ in range(2):
            event = await anext(reminders)
            told = event.attributes
            print(f"{event.publisher}: {told['text']} ({told['metres']} m)")
        await phone.execute_script("milk")
        print("visits:", (await anext(visits)).attributes["value"])
    await server.stop()


if __name__ == "__main__":
    asyncio.run(main())
