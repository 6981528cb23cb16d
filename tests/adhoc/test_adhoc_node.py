"""The node that programs use, over real sockets on loopback."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import nearcast as nc
from nearcast.adhoc.group_addresses import BEACONS
from nearcast.adhoc.multicast_socket import MulticastSocket, no_multicast
from nearcast.wire.beacons.signatures import Member, SigningKey
from tests.support.multicast import LOOPBACK, free_port, require_multicast, until_true

KEY, OTHER = b"k" * 32, b"o" * 32
SIREN = nc.event_type("siren", {"lane": int}, validity=30)


@asynccontextmanager
async def nodes(*names: str, port: int | None = None) -> AsyncIterator[list[nc.AdhocNode]]:
    """Open nodes on a port of their own, all at one place."""
    require_multicast()
    port = port or free_port()
    async with AsyncExitStack() as stack:
        found = []
        for name in names:
            node = nc.adhoc(name, key=KEY, interface=LOOPBACK, port=port)
            found.append(await stack.enter_async_context(node))
            await node.move(53.35, -6.26)
        yield found


async def meets() -> None:
    async with nodes("amb", "car") as (amb, car):
        stream = car.subscribe("siren", where="lane >= 2")
        async with stream as events:
            await amb.announce(SIREN, to=nc.circle(amb, 500))
            await until_true(lambda: car.discovered == [("amb", SIREN)])
            await amb.raise_("siren", {"lane": 1})
            name = await amb.raise_(SIREN, {"lane": 2}, at=(53.351, -6.26))
            event = await asyncio.wait_for(anext(events), 20)
            assert (event.id, event.publisher, event.attributes) == (name, "amb", {"lane": 2})
            assert event.position == nc.Position(53.351, -6.26)
            assert event.subscriptions == (stream.subscription.id,)
        with pytest.raises(nc.EventTypeError, match="needs 'lane'"):
            await amb.raise_(SIREN, {})
        await amb.unannounce(SIREN)
        await until_true(lambda: car.discovered == [])


def test_nodes_meet_and_get_what_their_filters_select() -> None:
    asyncio.run(meets())


async def handled() -> None:
    async with nodes("amb", "car") as (amb, car):
        got: list[nc.Received] = []
        stream = car.subscribe("siren", got.append)
        await stream.open()
        await amb.announce("siren", to="circle:me,100")
        await until_true(lambda: car.discovered != [])
        await amb.publish("siren", {"lane": 1})
        await until_true(lambda: len(got) == 1)
        await car.unsubscribe(stream)
        assert car.statistics().groups == 0
        await amb.publish("siren", {"lane": 2})
        await asyncio.sleep(0.1)
        assert len(got) == 1


def test_a_handler_is_called_until_unsubscribed() -> None:
    asyncio.run(handled())


async def attacked() -> None:
    port, recorded = free_port(), list[bytes]()
    async with nodes("amb", "car", port=port) as (amb, car):
        thief = MulticastSocket(LOOPBACK, port=port)
        thief.receive = lambda data, sender: recorded.append(data)
        thief.join(BEACONS)
        thief.start(asyncio.get_running_loop())
        async with (
            car.subscribe("siren") as events,
            nc.adhoc("amb", key=OTHER, interface=LOOPBACK, port=port) as forger,
        ):
            await amb.announce(SIREN, to=nc.circle(amb, 500))
            await until_true(lambda: car.discovered != [])
            (group,) = car._engine.proximities.groups
            thief.join(f"{group:06x}")
            await forger.move(53.35, -6.26)
            await forger.announce(SIREN, to=nc.circle(forger, 500))
            await forger.raise_(SIREN, {"lane": 666})
            for lane in range(5):
                await amb.raise_(SIREN, {"lane": lane})
            await until_true(lambda: len(recorded) >= 6)
            for _ in range(20):
                for data in recorded:
                    thief.send(data, BEACONS)
                    thief.send(data, f"{group:06x}")
                thief.send(b"nc\x01\x01" + b"x" * 100, f"{group:06x}")
                thief.send(b"", BEACONS)
            name = await amb.raise_(SIREN, {"lane": 9})
            got = [await asyncio.wait_for(anext(events), 20) for _ in range(6)]
            assert [event.attributes["lane"] for event in got] == [0, 1, 2, 3, 4, 9]
            assert got[-1].id == name
            await until_true(lambda: car.statistics().datagrams.unsealed >= 20)
            assert events.take_all() == []
        thief.close()


def test_replayed_forged_and_broken_datagrams_change_nothing() -> None:
    asyncio.run(attacked())


async def signed() -> None:
    require_multicast()
    port, secrets = free_port(), {name: name[0].encode() * 32 for name in ("amb", "car", "gate")}
    members = {name: Member(SigningKey(each).public) for name, each in secrets.items()}

    def node(name: str, signs_as: str, known: dict[str, Member] | None) -> nc.AdhocNode:
        return nc.adhoc(
            name, key=KEY, interface=LOOPBACK, port=port, sign=secrets[signs_as], members=known
        )

    async with (
        node("amb", "amb", members) as amb, node("car", "car", members) as car,
        node("amb", "gate", None) as forger, car.subscribe("siren") as events,
    ):  # fmt: skip
        for each in (amb, car, forger):
            await each.move(53.35, -6.26)
        await forger.announce(SIREN, to=nc.circle(forger, 500))
        await forger.raise_(SIREN, {"lane": 666})
        await amb.announce(SIREN, to=nc.circle(amb, 500))
        await until_true(lambda: car.discovered == [("amb", SIREN)])
        await forger.raise_(SIREN, {"lane": 666})
        name = await amb.raise_(SIREN, {"lane": 2})
        assert (await asyncio.wait_for(anext(events), 20)).id == name
        await until_true(lambda: car.statistics().datagrams.forged >= 3)
        assert events.take_all() == []


def test_a_member_that_speaks_as_another_is_not_believed_where_members_sign() -> None:
    asyncio.run(signed())


async def hidden() -> None:
    require_multicast()
    port, addresses, heard = free_port(), set[str](), list[bytes]()

    def note(data: bytes, sender: str) -> None:
        addresses.add(sender)
        heard.append(data)

    thief = MulticastSocket(LOOPBACK, port=port, receive=note)
    thief.join(BEACONS)
    thief.start(asyncio.get_running_loop())
    async with (
        nc.adhoc("amb", key=KEY, interface=LOOPBACK, port=port, pseudonym_s=600) as amb,
        nc.adhoc("car", key=KEY, interface=LOOPBACK, port=port) as car,
        amb.subscribe("siren") as own, car.subscribe("siren") as events,
    ):  # fmt: skip
        for each in (amb, car):
            await each.move(53.35, -6.26)
        await amb.announce(SIREN, to=nc.circle(amb, 100))
        await until_true(lambda: car.discovered == [(amb.alias, SIREN)])
        first = amb.alias
        await amb.raise_(SIREN, {"lane": 1})
        amb._change_name(600.0)
        second = amb.alias
        await until_true(lambda: car.discovered == [(second, SIREN)])
        await amb.raise_(SIREN, {"lane": 2})
        got = [await asyncio.wait_for(anext(events), 20) for _ in range(2)]
        assert [each.publisher for each in got] == [first, second]
        assert first != second
        assert {car.node_of(first), car.node_of(second)} == {"amb"}
        assert "amb" not in first + second
        assert car.positions().keys() == {"amb"}
        # To who has not the key nothing is alike: neither ports nor nonces.
        assert len(addresses) == 2
        assert len({data[8:14] for data in heard}) == 2
        assert own.take_all() == []
    thief.close()


def test_pseudonyms_change_and_are_told_apart_by_the_group_key_alone() -> None:
    asyncio.run(hidden())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pseudonym_s": 600.0}, "take a group key"),
        ({"key": KEY, "pseudonym_s": 1.0}, "at least 60"),
        ({"sign": b"short"}, "has 32 bytes, not 5"),
        ({"sign": b"a" * 32, "members": {}}, "'amb' is not among the members: nobody would"),
        (
            {"sign": b"a" * 32, "members": {"amb": Member(SigningKey(b"b" * 32).public)}},
            "'amb' has another key among the members",
        ),
        ({"members": "no such file"}, "file of members no such file cannot be read"),
        ({"sign": "no such file"}, "make one with: nearcast adhoc sign NODE FILE"),
    ],
)
def test_what_a_node_cannot_prove_itself_with_is_refused(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        nc.adhoc("amb", **options)


async def overflown() -> None:
    async with nodes("amb", "car") as (amb, car), car.subscribe("siren", buffer=3) as events:
        await amb.announce(SIREN, to=nc.circle(amb, 500))
        await until_true(lambda: car.discovered != [])
        for lane in range(8):
            await amb.raise_(SIREN, {"lane": lane})
        await until_true(lambda: events.dropped == 5)
        assert [event.attributes["lane"] for event in events.take_all()] == [5, 6, 7]


def test_of_too_many_unread_events_the_oldest_are_dropped_and_counted() -> None:
    asyncio.run(overflown())


@pytest.mark.parametrize("node", ["", "me", "a~b"])
def test_what_is_no_node_is_refused(node: str) -> None:
    with pytest.raises(nc.AdhocOptionsError):
        nc.adhoc(node)


def test_a_key_that_cannot_be_read_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(nc.AdhocOptionsError, match="nearcast adhoc key"):
        nc.adhoc("a", key=tmp_path / "none")
    (tmp_path / "short").write_text("abcd")
    with pytest.raises(ValueError, match="32 bytes, not 2"):
        nc.adhoc("a", key=tmp_path / "short")


async def unopened() -> None:
    node = nc.adhoc("a", interface=LOOPBACK)
    with pytest.raises(nc.AdhocError, match="is not open"):
        await node.move(53.35, -6.26)


def test_a_node_that_is_not_open_says_so() -> None:
    asyncio.run(unopened())


async def related() -> None:
    async with nodes("truck", "car") as (truck, car):
        await car.relate("convoy", ["me", truck], within=100)
        async with car.relation("convoy") as states:
            first = await asyncio.wait_for(anext(states), 20)
            assert (first.state, first.distance) == ("apart", None)
            # Its beacon tells where the truck is.
            await truck.announce("status", to="circle:me,500")
            near = await asyncio.wait_for(anext(states), 20)
            assert (near.state, near.members) == ("near", ("car", "truck"))
            await car.move(53.3515, -6.26)
            away = await asyncio.wait_for(anext(states), 20)
            assert away.state == "apart"
            assert away.distance == pytest.approx(167, abs=1)
            await car.move(53.35, -6.26)
            assert (await asyncio.wait_for(anext(states), 20)).state == "near"
            # Who is not heard any more is nowhere.
            await truck.unannounce("status")
            assert (await asyncio.wait_for(anext(states), 20)).state == "apart"
            await car.unrelate("convoy")
            assert (await asyncio.wait_for(anext(states), 20)).ended
        with pytest.raises(nc.ModelError):
            await car.relate("alone", ["me"], within=100)


def test_a_node_tells_when_others_are_near_and_when_they_part() -> None:
    asyncio.run(related())


async def forbidden_for_a_while() -> None:
    async with nodes("amb", "car") as (amb, car), car.subscribe("siren") as events:
        await amb.announce(SIREN, to=nc.circle(amb, 100))
        await until_true(lambda: car.discovered != [])
        socket = amb._socket
        assert isinstance(socket, MulticastSocket)
        send, wakes = socket.send, amb._engine.wake_at

        def forbid(data: bytes, to: str) -> None:
            raise no_multicast(OSError(errno.EPERM, "no"), None, 4)

        socket.send = forbid  # type: ignore[method-assign]  # a firewall that changes
        with pytest.raises(nc.MulticastError, match="not permitted"):
            await amb.raise_(SIREN, {"lane": 1})
        await until_true(lambda: amb._engine.wake_at > wakes)
        socket.send = send  # type: ignore[method-assign]
        name = await amb.raise_(SIREN, {"lane": 2})
        assert (await asyncio.wait_for(anext(events), 20)).id == name
        beacons = amb.statistics().counts.beacons_sent
        await until_true(lambda: amb.statistics().counts.beacons_sent > beacons)


def test_beacons_go_on_after_the_network_refused_for_a_while() -> None:
    asyncio.run(forbidden_for_a_while())
