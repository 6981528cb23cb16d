"""`me.nodes(…)`: who is there, as values."""

import asyncio
from collections.abc import Iterator

import pytest

import nearcast as nc
from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5
from tests.support.running_broker import RunningBroker


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    broker = RunningBroker()
    yield f"mqtt://127.0.0.1:{broker.port}"
    broker.stop()


@pytest.mark.parametrize("version", [MQTT_5, MQTT_3_1_1])
def test_who_is_there(url: str, version: int) -> None:
    async def run() -> None:
        async with (
            nc.connect(url, f"me{version}", version=version) as me,
            nc.connect(url, f"truck{version}") as truck,
            nc.connect(url, f"bike{version}") as bike,
        ):
            await me.move(53.35, -6.26)
            await truck.move(53.351, -6.26)
            await truck.context(kind="truck", run=version)
            await bike.move(53.36, -6.26)
            await bike.context(kind="bike", run=version)
            (found,) = await me.nodes(nc.circle(me, 500), where=f"run = {version}")
            assert isinstance(found, nc.Present)
            assert found.node == truck.node
            assert found.position == nc.Position(53.351, -6.26)
            assert found.context == {"kind": "truck", "run": version}
            assert found.online is True
            assert found.distance_m is None
            assert found.time is not None
            near = await me.nodes(near=me, where=f"run = {version}")
            assert [each.node for each in near] == [truck.node, bike.node]
            assert [round(each.distance_m or 0) for each in near] == [111, 1113]
            assert await me.nodes(near="me", most=1, where=f"run = {version}") == near[:1]
            # Several questions at once are each answered.
            many = await asyncio.gather(*(me.nodes(near=me, most=1) for _ in range(5)))
            assert len(many) == 5
            with pytest.raises(nc.RejectedError, match="place"):
                await me.nodes("place:nowhere")

    asyncio.run(run())


def test_pages_are_followed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.client.api.node_subscriptions._PAGE", 2)

    async def run() -> None:
        async with nc.connect(url, "many") as me:
            for number in range(5):
                async with nc.connect(url, f"page-{number}", session_expiry_s=0) as other:
                    await other.move(10.0 + number * 0.001, 10.0)
            area = "circle:10,10,5000"
            found = [each.node for each in await me.nodes(area)]
            assert found == [f"page-{number}" for number in range(5)]
            assert [each.node for each in await me.nodes(area, most=3)] == found[:3]
            assert not any(each.online for each in await me.nodes(area))

    asyncio.run(run())
