"""Links in a network namespace: IPv6, the choice of an interface, and what the kernel forbids.

Run as `unshare --user --map-root-user --net python -m tests.adhoc.namespace_links`: it prints one
JSON object of what it saw.
"""

import asyncio
import json
import sys

import nearcast as nc
from tests.adhoc.namespace_field import command
from tests.support.multicast import until_true

SIREN = nc.event_type("siren", {"lane": int})


async def refusal(**options: object) -> str:
    try:
        async with nc.adhoc("p", **options):  # type: ignore[arg-type]  # as given
            return ""
    except nc.MulticastError as error:
        return str(error)


async def over_ipv6() -> tuple[list[object], list[object]]:
    """Raise an event on one end of a cable; return what both interfaces of it heard."""
    async with (
        nc.adhoc("p", interface="near", family=6) as producer,
        nc.adhoc("c", interface="far", family=6) as consumer,
        nc.adhoc("o", interface="lone", family=6) as other,
        consumer.subscribe("siren") as events, other.subscribe("siren") as others,
    ):  # fmt: skip
        for node in (producer, consumer, other):
            await node.move(53.35, -6.26)
        await producer.announce(SIREN, to=nc.circle(producer, 100))
        await until_true(lambda: consumer.discovered == [("p", SIREN)])
        await producer.raise_(SIREN, {"lane": 2})
        event = await asyncio.wait_for(anext(events), 20)
        return [[event.publisher, event.attributes]], [each.id for each in others.take_all()]


async def run() -> dict[str, object]:
    command("ip", "link", "set", "lo", "up")
    command("ip", "route", "add", "prohibit", "239.0.0.0/8")
    seen: dict[str, object] = {"forbidden": await refusal()}
    for one, end in (("near", "far"), ("lone", "end")):
        command("ip", "link", "add", one, "type", "veth", "peer", "name", end)
        for number, name in enumerate((one, end), 1):
            command("ip", "link", "set", name, "addrgenmode", "none")
            command("ip", "link", "set", name, "up")
            command("ip", "addr", "add", f"fe80::{number}/64", "dev", name, "nodad")
    seen["IPv6 anywhere"] = await refusal(family=6)
    seen["received"], seen["other interface"] = await over_ipv6()
    return seen


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(run())))
