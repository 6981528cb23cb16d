"""Following over a real broker: what is told is as with full reporting, with far fewer messages."""

import asyncio
import math
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

import nearcast as nc
from nearcast.client.errors import OptionsError
from nearcast.core.model import ModelError, Position
from nearcast.core.model.geometry.geodesy import distance_m
from tests.client.api.nodes import DUBLIN, node, versions
from tests.client.servers import nearcast, run

FIXES, PERIOD = 480, 120
DEGREE_M = 111_200.0


class Source:
    """Fixes that a test gives, one by one."""

    def __init__(self) -> None:
        self.fixes: asyncio.Queue[Position | None] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[Position]:
        while (fix := await self.fixes.get()) is not None:
            yield fix


def tracks() -> list[tuple[Position, Position]]:
    """One walks slowly along a street, another goes up and down it."""
    return [
        (
            Position(53.0 + 0.2 * at / DEGREE_M, -6.0),
            Position(53.0 + 900.0 * math.cos(2 * math.pi * at / PERIOD) / DEGREE_M, -6.0),
        )
        for at in range(FIXES)
    ]


def states(metres: float) -> list[str]:
    near = [distance_m(a.lat, a.lon, b.lat, b.lon) <= metres for a, b in tracks()]
    changes = [now for before, now in pairwise([False, *near]) if now is not before]
    return ["apart", *("near" if now else "apart" for now in changes)]


def test_a_pair_that_follows_is_told_of_like_one_that_reports_every_fix(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "dispatch") as dispatch,
            node(server, "walker") as walker,
            node(server, "bus") as bus,
        ):
            await dispatch.relate("pair", ["walker", "bus"], within=100)
            sources = [Source(), Source()]
            async with dispatch.relation("pair") as told, asyncio.TaskGroup() as tasks:
                following = [
                    tasks.create_task(each.follow(source, accuracy_m=None))
                    for each, source in zip((walker, bus), sources, strict=True)
                ]
                for fixes in tracks():
                    for source, fix in zip(sources, fixes, strict=True):
                        source.fixes.put_nowait(fix)
                    # Fixes come no faster than the broker answers: until a region is granted,
                    # each fix is reported.
                    await asyncio.sleep(0.005)
                    await dispatch.publish("tick", qos=1)
                for source in sources:
                    source.fixes.put_nowait(None)
                sent = [await each for each in following]
                found = [(await anext(told)).state for _ in states(100)]
                assert not told.take_all()
            assert found == states(100)
            assert [each.fixes for each in sent] == [FIXES, FIXES]
            reports = sum(each.reports for each in sent)
            assert reports < FIXES / 2

    run(work())


@versions
def test_a_fix_is_reported_when_it_is_far_from_the_last_report(
    version: int, tmp_path: Path
) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "reader") as reader,
            node(server, "car", version) as car,
        ):
            source = Source()
            async with reader.observe(car) as known, asyncio.TaskGroup() as tasks:
                await anext(known)
                following = tasks.create_task(car.follow(source))
                seen: list[float] = []
                for metres in (0, 20, 49, 51, 90, 102, 60):
                    source.fixes.put_nowait(Position(53.0 + metres / DEGREE_M, -6.0))
                    await asyncio.sleep(0.05)
                while len(seen) < 3:
                    position = (await anext(known)).position
                    assert position is not None
                    seen.append(round((position.lat - 53.0) * DEGREE_M))
                source.fixes.put_nowait(None)
                assert (await following).reports == 4
                # The last fix is told in the end.
                last = (await anext(known)).position
                assert last is not None
            assert seen == [0, 51, 102]
            assert round((last.lat - 53.0) * DEGREE_M) == 60

    run(work())


def test_pairs_of_numbers_are_fixes_too_and_any_iterable_is_a_source(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as me:
            sent = await me.follow([DUBLIN, (53.4, -6.3)], accuracy_m=10.0)
            assert sent.fixes == 2
            assert (await me.read("a")).position == Position(53.4, -6.3)

    run(work())


def test_what_is_wrong_with_fixes_is_raised(tmp_path: Path) -> None:
    async def work() -> None:
        async with nearcast(tmp_path) as server, node(server, "a") as me:
            with pytest.raises(ModelError, match="latitude"):
                await me.follow([(91.0, 0.0)])
            for wrong in (-1.0, math.inf, math.nan):
                with pytest.raises(OptionsError, match="accuracy"):
                    await me.follow([], accuracy_m=wrong)
            # Nothing is left over from a call that failed.
            assert (await me.follow([DUBLIN])).fixes == 1

    run(work())


def test_the_latest_part_that_follows_counts_and_the_other_reports_every_fix(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        async with (
            nearcast(tmp_path) as server,
            node(server, "car") as car,
            nc.connect(f"mqtt://127.0.0.1:{server.port}", node="car", part="spare") as spare,
        ):
            first, second = Source(), Source()
            async with asyncio.TaskGroup() as tasks:
                one = tasks.create_task(car.follow(first))
                await asyncio.sleep(0.1)
                other = tasks.create_task(spare.follow(second))
                await asyncio.sleep(0.1)
                for source in (first, second):
                    for metres in range(5):
                        source.fixes.put_nowait(Position(53.0 + metres / DEGREE_M, -6.0))
                        await asyncio.sleep(0.05)
                    source.fixes.put_nowait(None)
                assert (await one).reports == 6
                assert (await other).reports == 2

    run(work())
