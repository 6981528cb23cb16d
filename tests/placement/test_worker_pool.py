"""Hostile scripts in real worker processes: stopped within their limits, others unharmed."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from nearcast.placement.worker_messages import CallDone, ScriptCall, SourceChecked
from nearcast.placement.worker_pool import NICE, BatchListener, ScriptBatch, WorkerPool

EVENT = ScriptCall("on_event", b'{"id": "1"}')
HONEST = """
def on_event(event, state):
    state["n"] = state.get("n", 0) + 1
    publish("out", context("somebody"))
"""
MEMORY, STEPS, TIME = "64 MiB", "1000000 steps", "longer than 1 s"


class Results(BatchListener):
    """What came of a batch."""

    def __init__(self) -> None:
        self.checks: list[SourceChecked] = []
        self.calls: list[CallDone] = []
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def checked(self, result: SourceChecked) -> None:
        self.checks.append(result)

    def called(self, result: CallDone) -> None:
        self.calls.append(result)

    def context(self, node: str) -> bytes:
        return b'{"battery": 5}'

    def finished(self, broken: bool) -> None:
        self.done.set_result(broken)

    @property
    def problems(self) -> list[str]:
        return [each.problem for each in self.checks] + [each.problem for each in self.calls]


@asynccontextmanager
async def started(size: int) -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(size)
    try:
        yield pool
    finally:
        await pool.stop()


async def run(
    pool: WorkerPool,
    source: str,
    calls: Sequence[ScriptCall] = (EVENT,),
    tenant: str = "somebody",
    together: bool = False,
) -> Results:
    found = Results()
    name = f"{tenant}/{hash(source)}"
    pool.submit(ScriptBatch(tenant, name, source, b"{}", tuple(calls), found, together))
    assert await found.done is False or together
    return found


def is_stopped_for(problem: str, limit: str) -> bool:
    """Whether a limit stopped a call, or the clock before it, as on a busy machine."""
    return bool(problem) and (limit in problem or TIME in problem)


def body(*lines: str) -> str:
    return "\n    ".join(("def on_event(event, state):", *lines))


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (body("for i in range(1000000000):", "    pass"), STEPS),
        ("def f(n):\n    return f(n)\n" + body("f(1)"), "call stack"),
        (body("[0 for a in range(10000) for b in range(10000)]"), STEPS),
        (body("r = list(range(30000))", "[x in r for x in r]"), TIME),
        (body("x = [0] * 1000000000"), MEMORY),
        (body("x = sorted(range(5000000))"), MEMORY),
        (body("x = 'a' * 1000000", "x.replace('a', x)"), MEMORY),
        (body("x = 'a'", "for i in range(40):", "    x = x + x"), MEMORY),
        (body("x = ['a']", "for i in range(40):", "    x = x + x"), MEMORY),
        (body("x = 3", "for i in range(40):", "    x = x * x"), ""),
        (body("x = []", "for i in range(100000):", "    x = [x]", "state['x'] = x"), MEMORY),
        (body("state['x'] = state"), "Cycle"),
        (body("state['x'] = on_event"), "function"),
        (body("state['x'] = 'a' * 70000"), "65536"),
        (body("for i in range(101):", "    publish('x')"), "100 events"),
        (body("for i in range(9):", "    publish('x', 'a' * 30000)"), "262144 bytes"),
        (body("for i in range(101):", "    context(str(i))"), "100 contexts"),
        (body("publish('x', on_event)"), "function"),
        (body("publish(5)"), "subject"),
    ],
)
def test_a_hostile_call_is_stopped_and_the_next_one_is_served(source: str, named: str) -> None:
    async def attack() -> None:
        async with started(1) as pool:
            found = await run(pool, source)
            assert len(found.problems) == 1
            assert is_stopped_for(found.problems[0], named)
            honest = await run(pool, HONEST)
            assert honest.calls[0].state == b'{"n":1}'

    asyncio.run(attack())


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("x = " + " + ".join(["1"] * 30_000) + "\n" + HONEST, MEMORY),
        ("x = " + "not " * 15_000 + "1\n" + HONEST, MEMORY),
        ("y = 1\nx = y" + ".a" * 30_000 + "\n" + HONEST, MEMORY),
        ("[0 for a in range(10000) for b in range(10000)]\n" + HONEST, STEPS),
        ("x = [0] * 1000000000\n" + HONEST, MEMORY),
        ("import os\n" + HONEST, "import"),
        ("load('x.star', 'y')\n" + HONEST, "load"),
        (body("open('/etc/passwd')"), "open"),
        (body("eval('1')"), "eval"),
        ("publish('x')\n" + HONEST, "publish"),
        ("context('x')\n" + HONEST, "context"),
    ],
)
def test_a_hostile_source_is_refused(source: str, named: str) -> None:
    async def attack() -> None:
        async with started(1) as pool:
            found = await run(pool, source, ())
            assert len(found.problems) == 1
            assert is_stopped_for(found.problems[0], named)
            assert (await run(pool, HONEST, ())).checks[0].functions == ("on_event",)

    asyncio.run(attack())


def test_what_a_batch_did_before_it_broke_a_worker_is_not_lost() -> None:
    source = body(
        "state['n'] = state.get('n', 0) + 1", "if state['n'] == 3:", "    x = [0] * 1000000000"
    )

    async def attack() -> None:
        async with started(1) as pool:
            found = await run(pool, source, [EVENT] * 5)
            assert [each.state for each in found.calls] == [b'{"n":1}', b'{"n":2}', None]
            assert MEMORY in found.calls[2].problem
            together = await run(pool, source, [EVENT] * 5, together=True)
            assert together.done.result(), "it is run again, one call at a time"
            assert not any(each.problem for each in together.calls)

    asyncio.run(attack())


def test_a_call_leaves_nothing_for_the_next() -> None:
    source = "seen = []\n" + body("seen.append(1)", "state['n'] = len(seen)")

    async def attack() -> None:
        async with started(1) as pool:
            assert "mutable" in (await run(pool, source)).problems[0].lower().replace("im", "")

    asyncio.run(attack())


def test_tenants_have_workers_of_their_own_in_turns() -> None:
    async def take_turns() -> None:
        async with started(2) as pool:
            endless = body("for i in range(1000000000):", "    pass")
            attacks = [run(pool, endless, [EVENT] * 10, f"attacker {n}") for n in range(5)]
            honest = [run(pool, HONEST, [EVENT] * 50, f"honest {n}", True) for n in range(5)]
            results = await asyncio.gather(*attacks, *honest)
            assert all(STEPS in problem for each in results[:5] for problem in each.problems)
            assert [each.calls[-1].state for each in results[5:]] == [b'{"n":50}'] * 5
            assert len(pool.pids) <= 2
            assert pool.statistics()["script_workers_started_total"] >= 10

    asyncio.run(take_turns())


def test_a_worker_gives_way_and_serves_many_scripts_of_its_tenant() -> None:
    async def look() -> None:
        async with started(1) as pool:
            for number in range(40):
                await run(pool, f"n = {number}\n{HONEST}", ())
            assert pool.statistics()["script_workers_started_total"] == 1
            (pid,) = pool.pids
            own = os.getpriority(os.PRIO_PROCESS, 0)
            assert os.getpriority(os.PRIO_PROCESS, pid) == min(own + NICE, 19)

    asyncio.run(look())


def test_a_worker_has_nothing_of_the_environment_and_ends_with_the_pool() -> None:
    async def look() -> None:
        os.environ["NEARCAST_SECRET"] = "secret"
        async with started(1) as pool:
            await run(pool, HONEST)
            (pid,) = pool.pids
            with open(f"/proc/{pid}/environ", "rb") as file:
                assert b"SECRET" not in file.read()
        assert not os.path.exists(f"/proc/{pid}")

    asyncio.run(look())
