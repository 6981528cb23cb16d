"""Gateways between proximity groups on loopback and a real broker."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import nearcast as nc
from nearcast.wire.beacons.signatures import Member, SigningKey
from tests.support.multicast import LOOPBACK, free_port, require_multicast, until_true
from tests.support.ruled_broker import broker_with
from tests.support.running_broker import RunningBroker

KEY = b"k" * 32
SIREN = nc.event_type("siren", {"lane": int}, validity=30)
ALERT = nc.event_type("alert", {"text": str})


class Town:
    """A broker, and nodes without one at one place."""

    user: str | None = None
    """Who the gateways are at the broker."""

    def __init__(self, broker: RunningBroker) -> None:
        require_multicast()
        self.url = f"mqtt://localhost:{broker.port}"
        self._port = free_port()

    def node(self, name: str, pseudonym_s: float | None = None) -> nc.AdhocNode:
        return nc.adhoc(name, key=KEY, interface=LOOPBACK, port=self._port, pseudonym_s=pseudonym_s)

    def client(self, node: str, part: str | None = None) -> nc.Node:
        if self.user is None:
            return nc.connect(self.url, node=node, part=part)
        return nc.connect(self.url, node=node, part=part, user=self.user, password="secret")

    def gateway(self, node: nc.AdhocNode, uplink: nc.Node) -> nc.Gateway:
        return nc.Gateway(
            node, uplink, lambda each: self.client(each, node.node), up=["siren"],
            down=["alert"], area="circle:me,500", positions_s=0.05,
        )  # fmt: skip


async def both_ways(town: Town) -> None:
    async with (
        town.node("amb") as amb, town.node("car") as car, town.node("gw1") as one,
        town.node("gw2") as two, town.client("gw1") as up_one, town.client("gw2") as up_two,
        town.client("office") as office,
    ):  # fmt: skip
        for node in (amb, car, one, two):
            await node.move(53.35, -6.26)
        # Who is in the target area at the broker gets what is raised in the proximity.
        await office.move(53.351, -6.26)
        async with (
            office.subscribe("siren", where="lane >= 1") as sirens,
            car.subscribe("alert") as alerts, car.subscribe("siren") as heard,
            town.gateway(one, up_one) as first, town.gateway(two, up_two) as second,
        ):  # fmt: skip
            await amb.announce(SIREN, to=nc.circle(amb, 300))
            await until_true(lambda: len(car.discovered) == len(one.discovered) + 1 == 3)
            name = await amb.raise_(SIREN, {"lane": 2})
            event = await asyncio.wait_for(anext(sirens), 30)
            assert (event.id, event.publisher) == (name, "amb")
            assert event.attributes == {"lane": 2}
            assert event.position == nc.Position(53.35, -6.26)
            alert = await office.publish("alert", {"text": "fog"}, at=(53.3, -6.2))
            told = await asyncio.wait_for(anext(alerts), 30)
            assert (told.id, told.publisher, told.attributes) == (alert, "office", {"text": "fog"})
            assert told.position == nc.Position(53.3, -6.2)
            # Both gateways carried both, and nobody got anything twice.
            statistics = (first.statistics, second.statistics)
            await until_true(lambda: all(each.up == 1 and each.down == 1 for each in statistics))
            await asyncio.sleep(0.3)
            assert sirens.take_all() == alerts.take_all() == []
            assert [each.id for each in heard.take_all()] == [name]
            assert all(each.up == 1 and each.down == 1 for each in statistics)
            # A beacon of the ad hoc world is a position at the broker.
            async with office.observe("amb") as states:
                await amb.move(53.3501, -6.2601)
                async with asyncio.timeout(30):
                    async for known in states:
                        if known.position == nc.Position(53.3501, -6.2601):
                            break


def test_a_gateway_joins_both_worlds_and_two_of_them_still_once(broker: RunningBroker) -> None:
    asyncio.run(both_ways(Town(broker)))


async def no_right(town: Town) -> None:
    def refuse(node: str) -> nc.Node:
        return nc.connect("mqtt://localhost:1", node=node)

    async with (
        town.node("amb") as amb, town.node("gw") as node, town.client("gw") as uplink,
        nc.Gateway(node, uplink, refuse, up=["siren"]) as gateway,
    ):  # fmt: skip
        await amb.move(53.35, -6.26)
        await node.move(53.35, -6.26)
        await amb.announce(SIREN, to=nc.circle(amb, 300))
        await until_true(lambda: node.discovered != [])
        await amb.raise_(SIREN, {"lane": 2})
        await until_true(lambda: gateway.statistics.refused == 1)
        assert gateway.statistics.up == 0


def test_a_gateway_that_may_not_act_for_a_node_carries_nothing_of_it(
    broker: RunningBroker,
) -> None:
    asyncio.run(no_right(Town(broker)))


async def meet(
    driver: nc.Node | nc.AdhocNode,
    car: nc.Node | nc.AdhocNode,
    ready: Callable[[], Awaitable[None]],
) -> list[object]:
    """One program: it does not know whether there is a broker."""
    got: list[object] = []
    await driver.move(53.35, -6.26)
    await car.move(53.351, -6.26)
    async with car.subscribe("horn", where="lane >= 2") as events:
        await driver.announce("horn", to="circle:me,500")
        await ready()
        for lane in (1, 2, 3):
            await driver.publish("horn", {"lane": lane})
        async with asyncio.timeout(30):
            while len(got) < 2:
                event = await anext(events)
                got.append((event.subject, event.publisher, event.attributes["lane"]))
    return got


async def twice(town: Town) -> None:
    async def at_once() -> None:
        return

    async with town.client("amb") as driver, town.client("car") as car:
        with_broker = await meet(driver, car, at_once)
    async with town.node("amb") as node, town.node("car") as other:

        async def discovered() -> None:
            await until_true(lambda: other.discovered != [])

        without = await meet(node, other, discovered)
    assert with_broker == without == [("horn", "amb", 2), ("horn", "amb", 3)]


def test_the_same_program_runs_with_a_broker_and_without(broker: RunningBroker) -> None:
    asyncio.run(twice(Town(broker)))


async def under_pseudonyms(town: Town) -> None:
    async with (
        town.node("amb", 600.0) as amb, town.node("bike") as bike, town.node("car") as car,
        town.node("warden") as one, town.node("warden-2") as two, town.client("warden") as up_one,
        town.client("warden-2") as up_two, town.client("office") as office,
    ):  # fmt: skip
        for node in (amb, bike, car, one, two):
            await node.move(53.35, -6.26)
        await office.move(53.351, -6.26)
        async with (
            office.subscribe("siren", where="lane >= 1") as sirens,
            car.subscribe("siren") as heard,
            town.gateway(one, up_one) as first, town.gateway(two, up_two) as second,
        ):  # fmt: skip
            names: list[str] = []
            for lane in (1, 2):
                await amb.announce(SIREN, to=nc.circle(amb, 300))
                await until_true(lambda: amb.alias in (each[0] for each in one.discovered))
                await until_true(lambda: amb.alias in (each[0] for each in two.discovered))
                names.append(await amb.raise_(SIREN, {"lane": lane}))
                event = await asyncio.wait_for(anext(sirens), 30)
                # The broker sees one node, whatever it is called without it, and each event once.
                assert (event.id, event.publisher) == (names[-1], "amb")
                amb._change_name(600.0)
            statistics = (first.statistics, second.statistics)
            await until_true(lambda: all(each.up == 2 for each in statistics))
            # For this one no rule lets the gateways act.
            await bike.announce(SIREN, to=nc.circle(bike, 300))
            await until_true(lambda: ("bike", SIREN) in one.discovered)
            await until_true(lambda: ("bike", SIREN) in two.discovered)
            await bike.raise_(SIREN, {"lane": 7})
            await until_true(lambda: all(each.refused == 1 for each in statistics))
            async with office.observe("amb") as states:
                async with asyncio.timeout(30):
                    async for known in states:
                        if known.position == nc.Position(53.35, -6.26):
                            break
            assert sirens.take_all() == []
            await until_true(lambda: heard.statistics().unread == 3)
            publishers = {car.node_of(each.publisher or "") for each in heard.take_all()}
            assert publishers == {"amb", "bike"}


RULES = """
[[rule]]
permission = "allow"
who = "user:warden"
action = "connect"
nodes = ["warden*", "office", "amb"]
"""


def test_two_gateways_act_for_a_node_with_pseudonyms_as_far_as_rules_let_them(
    tmp_path: Path,
) -> None:
    broker = broker_with(tmp_path, RULES)
    try:
        town = Town(broker)
        town.user = "warden"
        asyncio.run(under_pseudonyms(town))
    finally:
        broker.stop()


async def on_either_side(town: Town) -> None:
    """The program of `meet`, one half of it with a broker and the other without."""
    found: list[list[object]] = []
    for with_broker in (True, False):
        async with town.node("gw") as node, town.client("gw") as uplink:
            await node.move(53.35, -6.26)
            await uplink.move(53.35, -6.26)
            gateway = nc.Gateway(
                node, uplink, lambda each: town.client(each, "gw"), up=["horn"], down=["horn"],
                area="circle:me,500",
            )  # fmt: skip
            async with gateway:
                if with_broker:
                    async with town.client("amb") as driver, town.node("car") as car:
                        found.append(await meet(driver, car, heard_by(car, "gw")))
                else:
                    async with town.node("amb") as other, town.client("car") as reader:
                        found.append(await meet(other, reader, heard_by(node, "amb")))
    assert found == [[("horn", "amb", 2), ("horn", "amb", 3)]] * 2


def heard_by(node: nc.AdhocNode, producer: str) -> Callable[[], Awaitable[None]]:
    async def ready() -> None:
        await until_true(lambda: producer in [each for each, _ in node.discovered])

    return ready


def test_the_same_program_runs_with_one_half_on_either_side_of_a_gateway(
    broker: RunningBroker,
) -> None:
    asyncio.run(on_either_side(Town(broker)))


async def signed(town: Town) -> None:
    secrets = {name: name[0].encode() * 32 for name in ("gw", "car")}
    members = {name: Member(SigningKey(each).public) for name, each in secrets.items()}
    port = free_port()

    def node(name: str, known: dict[str, Member]) -> nc.AdhocNode:
        return nc.adhoc(
            name, key=KEY, interface=LOOPBACK, port=port, sign=secrets[name], members=known
        )

    uplink = town.client("gw")
    with pytest.raises(nc.AdhocOptionsError, match="mark it as a gateway"):
        nc.Gateway(node("gw", members), uplink, town.client, down=["alert"], area="circle:me,500")
    members["gw"] = Member(members["gw"].public, gateway=True)
    async with (
        uplink, town.client("office") as office, node("gw", members) as gateway,
        node("car", members) as car, car.subscribe("alert") as alerts,
    ):  # fmt: skip
        for each in (gateway, car):
            await each.move(53.35, -6.26)
        async with nc.Gateway(gateway, uplink, town.client, down=["alert"], area="circle:me,500"):
            await until_true(lambda: car.discovered != [])
            name = await office.publish("alert", {"text": "fog"})
            alert = await asyncio.wait_for(anext(alerts), 30)
            assert (alert.id, alert.publisher) == (name, "office")


def test_where_members_sign_a_gateway_speaks_for_others_if_it_is_listed_as_one(
    broker: RunningBroker,
) -> None:
    asyncio.run(signed(Town(broker)))
