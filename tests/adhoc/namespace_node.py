"""A node in a network namespace, driven by JSON lines: `python namespace_node.py NAME INTERFACE`.

A radio is emulated: `hears` lists the addresses that are in range. Events that arrive, and answers
to commands, are printed as JSON lines.
"""

import asyncio
import json
import sys

import nearcast as nc
from nearcast.wire.beacons.signatures import Member, SigningKey

SIREN = nc.event_type("siren", {"lane": int}, validity=120)
KEY = b"k" * 32
SECRETS = {name: name.encode() * 32 for name in "abcd"}
MEMBERS = {name: Member(SigningKey(secret).public) for name, secret in SECRETS.items()}
FAST = nc.ProximitySettings(beacon_least_s=0.2, beacon_most_s=0.5, recovers=True)


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def main(name: str, interface: str) -> None:
    audible: set[str] = set()
    loop = asyncio.get_running_loop()
    node = nc.adhoc(
        name, key=KEY, interface=interface, settings=FAST, sign=SECRETS[name], members=MEMBERS,
        hears=lambda address: address in audible,
    )  # fmt: skip

    def got(event: nc.Received) -> None:
        say(event=event.id, publisher=event.publisher, lane=event.attributes["lane"])

    async with node:
        say(ready=name)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command, *arguments = json.loads(line)
            if command == "hears":
                audible.clear()
                audible.update(arguments)
            elif command == "move":
                await node.move(*arguments)
            elif command == "announce":
                await node.announce(SIREN, to=arguments[0])
            elif command == "unannounce":
                await node.unannounce(SIREN)
            elif command == "subscribe":
                await node.subscribe("siren", got).open()
            elif command == "raise":
                say(raised=await node.raise_(SIREN, {"lane": arguments[0]}))
            elif command == "counts":
                found = node.statistics()
                say(
                    sent=found.counts.events_sent + found.counts.events_forwarded,
                    beacons=found.counts.beacons_sent + found.counts.beacons_forwarded,
                    discovered=found.proximities,
                    unsealed=found.datagrams.unsealed,
                    forged=found.datagrams.forged,
                    over_share=found.counts.over_share,
                )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
