"""A node on a real broker: what it says holds, and what concerns it comes."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

import nearcast as nc
from nearcast.core.model import Position
from nearcast.core.model.context import Value
from nearcast.wire.mqtt import ReasonCode
from tests.client.api.nodes import DUBLIN, NORTH, ended, node, versions
from tests.client.servers import nearcast, run

SQUARE = [(-7.0, 53.0), (-6.0, 53.0), (-6.0, 54.0), (-7.0, 54.0)]


@versions
def test_the_example_of_the_contract_runs(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, AsyncExitStack() as stack:
            enter = stack.enter_async_context
            me = await enter(node(server, "ambulance-7", version))
            near = await enter(node(server, "near", version))
            far = await enter(node(server, "far", version))
            await near.move(53.3500, -6.2603)
            await far.move(*NORTH)
            heard = {each.node: await enter(each.subscribe("emergency/#")) for each in (near, far)}

            await me.move(53.3498, -6.2603)
            await me.announce("emergency/vehicle", to=nc.circle(me, 500))
            await me.publish("emergency/vehicle", {"lane": 2})
            traffic = me.subscribe("traffic/#", where="speed < 20", from_=nc.circle(me, 2000))
            async with traffic as events:
                await far.publish("traffic/m50", {"speed": 3})
                await near.publish("traffic/m50", {"speed": 80})
                await near.publish("traffic/m50", {"speed": 12})
                async for event in events:
                    assert event.subject == "traffic/m50"
                    assert event.attributes == {"speed": 12}
                    assert event.publisher == "near"
                    assert event.position == Position(53.3500, -6.2603)
                    break
            event = await anext(heard["near"])
            assert (event.attributes, event.publisher) == ({"lane": 2}, "ambulance-7")
            assert await ended(heard["far"], "emergency/over", me) == []

    run(work())


def test_an_event_says_all_that_its_publisher_said(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as a, node(server, "b") as b:
            await b.move(*DUBLIN)
            async with b.subscribe("x/#") as events:
                happened = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
                said = await a.publish(
                    "x/1",
                    "rain",
                    qos=2,
                    at=DUBLIN,
                    to=nc.circle(DUBLIN, 100),
                    valid=60,
                    object="weather",
                    time=happened,
                    properties=[("k", "1"), ("k", "2")],
                )
                event = await anext(events)
                assert (event.subject, event.text, event.attributes) == ("x/1", "rain", {})
                assert (event.id, event.publisher, event.time) == (said, "a", happened)
                assert event.position == Position(*DUBLIN)
                assert event.subscriptions == ("x/#",)
                assert event.properties == (("k", "1"), ("k", "2"))
                assert (event.qos, event.retain, event.priority) == (1, False, 1)

    run(work())


@versions
def test_a_second_event_with_one_id_is_not_delivered(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "a", version) as a,
            node(server, "b", version) as b,
            b.subscribe("x") as events,
        ):
            for text in ("one", "two"):
                await a.publish("x", text, id="same")
            assert [each.payload for each in await ended(events, "x", a)] == [b"one"]

    run(work())


@versions
def test_what_the_broker_refuses_is_raised_with_its_reason(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a", version) as me:
            with pytest.raises(nc.RejectedError, match="circle:nowhere"):
                await me.publish("x", {}, to="circle:nowhere")
            with pytest.raises(nc.RejectedError, match="circle:nowhere"):
                await me.announce("x", to="circle:nowhere")
            with pytest.raises(nc.RejectedError, match="rank"):
                await me.context(rank=1)
            with pytest.raises(nc.RejectedError, match="speed"):
                async with me.subscribe("x", where="speed <", name="bad"):
                    pass
            await me.publish("x", {}, to="circle:me,500")

    run(work())


def test_a_refused_subscription_leaves_nothing_behind(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as me:
            with pytest.raises(nc.RejectedError) as raised:
                async with me.subscribe("x", where="speed <"):
                    pass
            assert raised.value.reason_code is ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
            async with me.subscribe("x", where="speed < 3") as events:
                assert events.name is None

    run(work())


@versions
def test_what_stood_before_a_refusal_stands(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "a", version) as a,
            node(server, "b", version) as b,
            b.subscribe("x") as events,
        ):
            await a.move(*DUBLIN)
            await b.move(*NORTH)
            await a.announce("x", to=nc.circle(a, 100))
            with pytest.raises(nc.RejectedError):
                await a.announce("x", to="circle:nowhere")
            await a.publish("x", "near a")
            await a.unannounce("x")
            assert await ended(events, "x", a) == []

    run(work())


def test_an_error_that_no_call_waits_for_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a", 4) as me, me.errors() as errors:
            await me.publish("x", {}, to="circle:nowhere", qos=0)
            assert "circle:nowhere" in (await anext(errors)).error
            assert "circle:nowhere" in caplog.text

    run(work())


@versions
def test_a_node_reads_what_is_known_of_another(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "reader", version) as me:
            assert not (await me.read("car 1/x")).online
            async with node(server, "car 1/x", version) as car:
                await car.move(*DUBLIN)
                await car.context(speed=30, kind="car")
                await car.update({"kind": None, "task": {"to": "port"}})
                context: dict[str, Value] = {"speed": 30, "task": {"to": "port"}}
                known = nc.Known("car 1/x", Position(*DUBLIN), context, True)
                assert await me.read(car) == known
                assert await me.read(car) == known
            after = await me.read("car 1/x")
            assert (after.online, after.position) == (False, Position(*DUBLIN))

    run(work())


@versions
def test_a_node_follows_another(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "reader", version) as me,
            node(server, "car", version) as car,
            me.observe(car) as changes,
        ):
            assert (await anext(changes)).online is True
            await car.move(*DUBLIN)
            while (known := await anext(changes)).position is None:
                pass
            # Reading by the way takes nothing from the one who follows.
            assert (await me.read("car")).position == Position(*DUBLIN)
            await car.context(speed=3)
            while not (known := await anext(changes)).context:
                pass
            assert known == nc.Known("car", Position(*DUBLIN), {"speed": 3}, True)

    run(work())


@versions
def test_who_comes_into_an_area_is_told_until_the_watch_is_closed(
    version: int, tmp_path: Path
) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "reader", version) as me,
            node(server, "car", version) as car,
            node(server, "bus", version) as bus,
        ):
            for each in (car, bus):
                await each.context(kind=each.node)
                await each.move(*NORTH)
            area = nc.circle(DUBLIN, 200)
            async with bus.watch(name="centre") as others:
                async with me.watch(area, nodes="kind = 'car'", name="centre") as sightings:
                    for each in (bus, car):
                        await each.move(*DUBLIN)
                    await car.move(*NORTH)
                    for stream in (sightings, others):
                        came, went = await anext(stream), await anext(stream)
                        assert (came.state, came.node) == ("in", "car")
                        assert (went.state, went.node) == ("out", "car")
                        assert came.time is not None
                await car.move(*DUBLIN)
                # What was sent before this answer has come with it.
                await bus.read("car")
                assert others.statistics().unread == 0

    run(work())


@versions
def test_a_relationship_is_followed_until_it_ends(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "ann", version) as me,
            node(server, "car", version) as car,
        ):
            with pytest.raises(nc.RejectedError, match="within"):
                await me.relate("pair", ["ann", "car"])
            await me.relate("pair", [me, car], within=100, where="lights = TRUE")
            await me.relate("own", {"ann": 10, "car": 5_000})
            async with me.relation("pair") as pair, car.relation("own") as own:
                assert (await anext(pair)).state == "apart"
                assert [(await anext(own)).by for _ in range(2)] == ["ann", "car"]
                for each in (me, car):
                    await each.context(lights=True)
                    await each.move(*DUBLIN)
                near = await anext(pair)
                assert (near.state, near.members, near.distance) == ("near", ("ann", "car"), 0.0)
                assert near.time is not None
                assert [(await anext(own)).by for _ in range(2)] == ["ann", "car"]
                await car.move(*NORTH)
                apart = await anext(own)
                assert (apart.state, apart.by) == ("apart", "ann")
                assert (await anext(pair)).state == "apart"
                await me.unrelate("own")
                ended = await anext(own)
                assert (ended.state, ended.members, ended.ended) == ("apart", (), True)

    run(work())


def test_errors_come_to_those_who_ask(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as me, me.errors() as errors:
            with pytest.raises(nc.RejectedError):
                await me.update({"rank": 1})
            problem = await anext(errors)
            assert problem.topic == "$me/context"
            assert "rank" in problem.error

    run(work())


@versions
def test_places_are_defined_listed_and_removed(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a", version) as me:
            await me.define_place("city", "Dublin/Áth Cliath", nc.polygon(SQUARE))
            await me.move(*DUBLIN)
            async with me.subscribe("x", from_=nc.here("city"), no_local=False) as events:
                await me.publish("x", "in", id="1")
                await me.publish("x", "out", at=(10, 10), id="2")
                assert [each.text for each in await ended(events, "x", me)] == ["in"]
            (place,) = await me.retained("$place/#")
            assert place.attributes["type"] == "Polygon"
            await me.remove_place("city", "Dublin/Áth Cliath")
            assert await me.retained("$place/#") == []
            with pytest.raises(nc.RejectedError):
                await me.define_place("city", "Dublin", {"type": "Point", "coordinates": [0, 0]})

    run(work())


@versions
def test_policies_are_set_and_removed(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a", version) as me:
            await me.set_policy("matrix", "team/leader", {"rows": [[1, 1, 1]] * 3})
            await me.set_policy("template", "t", '{"where": "a = 1"}')
            found = {each.subject: each.payload for each in await me.retained("$policy/#")}
            assert found["$policy/template/t"] == b'{"where": "a = 1"}'
            assert b"[1,1,1]" in found["$policy/matrix/team%2Fleader"]
            with pytest.raises(nc.RejectedError, match="3 rows"):
                await me.set_policy("matrix", "team/leader", {"rows": []})
            await me.remove_policy("matrix", "team/leader")
            (left,) = await me.retained("$policy/#")
            assert left.subject == "$policy/template/t"

    run(work())


@versions
def test_all_that_is_retained_is_returned_and_nothing_else(version: int, tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "a", version) as me,
            me.subscribe("r/#", no_local=False) as events,
        ):
            numbers = [str(number) for number in range(500)]
            await asyncio.gather(*(me.publish(f"r/{n}", n, retain=True) for n in numbers))
            found = await me.retained("r/#")
            assert sorted(each.text for each in found) == sorted(numbers)
            assert len(await ended(events, "r/x", me)) == 500

    run(work())


def test_an_announcement_can_be_taken_back(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as a, node(server, "b") as b:
            await a.move(*DUBLIN)
            await b.move(*NORTH)
            async with b.subscribe("x") as events:
                await a.announce("x", to=nc.circle(a, 100))
                await a.publish("x", "near")
                await a.unannounce("x")
                assert await ended(events, "x", a) == []

    run(work())


def test_what_cannot_be_meant_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as me:
            with pytest.raises(nc.ModelError, match="swapped"):
                await me.move(-100, 53)
            with pytest.raises(nc.ModelError):
                await me.publish("a/#")
            with pytest.raises(nc.ModelError):
                me.subscribe("a/#/b")
            with pytest.raises(nc.OptionsError):
                me.watch()
            async with me.subscribe("x", name="n"):
                with pytest.raises(nc.OptionsError, match="already"):
                    me.subscribe("y", name="n")

    run(work())


@versions
def test_a_subscription_that_can_match_nothing_is_made_and_warned_of(
    tmp_path: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            nc.connect(f"mqtt://127.0.0.1:{server.port}", "me-too", version=version) as me,
            me.subscribe("a", from_="circle:me,500"),
        ):
            pass

    run(work())
    assert "me has no position yet: nothing can match `from`" in caplog.text


def test_a_warning_is_read_as_one(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            nc.connect(f"mqtt://127.0.0.1:{server.port}", "me-too") as me,
            me.errors() as problems,
            me.subscribe("a", from_="circle:me,500", name="near"),
        ):
            problem = await anext(problems)
            assert problem.topic == "$me/subscriptions/near"
            assert problem.warning.startswith("me has no position yet")
            assert not problem.error

    run(work())
