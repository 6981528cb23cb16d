"""Which sessions use most: compared with a plain sort of all of them."""

import asyncio
from random import Random

import pytest

from nearcast.broker.net.connection import Connection
from nearcast.broker.operations.session_table import (
    PIECE,
    SessionCounts,
    SessionTable,
    SessionUse,
    SortKey,
    counts_of,
    state_of,
)
from nearcast.broker.sessions.session import Session

COUNTS = ("cost", "packets", "bytes", "packets_sent", "bytes_sent", "deliveries", "evaluations")


def spend(sessions: dict[str, Session], random: Random) -> None:
    """Let every session use something."""
    for session in sessions.values():
        for name in COUNTS:
            value = getattr(session.account, name) + random.randrange(1_000)
            setattr(session.account, name, value)


def used_most(
    sessions: dict[str, Session], before: dict[str, SessionCounts], key: SortKey, most: int
) -> list[str]:
    """The plain twin: sort them all."""

    def value(name: str) -> float:
        now, then = counts_of(sessions[name]), before.get(name, SessionCounts())
        return {
            SortKey.CPU: now.cost - then.cost,
            SortKey.BYTES: now.bytes - then.bytes + now.bytes_sent - then.bytes_sent,
            SortKey.QUEUE: 0.0,
            SortKey.DELIVERIES: now.deliveries - then.deliveries,
            SortKey.FILTERS: now.filters - then.filters,
        }[key]

    return sorted(sessions, key=lambda name: -value(name))[:most]


async def top_while(
    sessions: dict[str, Session], random: Random, key: SortKey, most: int
) -> list[SessionUse]:
    """Ask for the sessions that use most while all use something, some go and others come."""
    asked = asyncio.create_task(SessionTable(sessions).top(key, most, 0.05))
    for _ in range(2 + len(sessions) // PIECE):
        await asyncio.sleep(0)
    for name in random.sample(list(sessions), len(sessions) // 3):
        del sessions[name]
    for number in range(random.randrange(5)):
        sessions[f"new{number}"] = Session(f"new{number}")
    spend(sessions, random)
    return await asked


@pytest.mark.parametrize("key", SortKey)
@pytest.mark.parametrize("count", [1, 30, 3 * PIECE + 1])
def test_the_first_are_those_of_a_plain_sort(key: SortKey, count: int) -> None:
    for seed in range(3):
        random = Random(f"{key} {count} {seed}")
        sessions = {f"c{number}": Session(f"c{number}") for number in range(count)}
        spend(sessions, random)
        before = {name: counts_of(session) for name, session in sessions.items()}
        found = asyncio.run(top_while(sessions, random, key, 20))
        assert [use.client for use in found] == used_most(sessions, before, key, 20), seed


def test_rates_are_what_was_used_meanwhile() -> None:
    session = Session("ann")
    session.account.bytes, session.account.cost = 1_000_000, 5e6
    uses = asyncio.run(top_while({"ann": session}, Random(1), SortKey.CPU, 5))
    (found,) = (use for use in uses if use.client == "ann")
    # At most a thousand of each were used, in a twentieth of a second or more.
    assert 0.0 < found.bytes_in_per_s <= 1_000 / 0.05
    assert 0.0 < found.cpu <= 1e-3 / 0.05
    assert found.packets_out_per_s > 0.0


def test_a_session_says_whether_it_is_connected_and_reads() -> None:
    session = Session("ann")
    assert state_of(session) == "away"
    connection = Connection()
    session.attach(connection)
    assert state_of(session) == "connected"
    connection.block(True)
    assert state_of(session) == "blocked"
    connection.close()
    assert state_of(session) == "ending"
