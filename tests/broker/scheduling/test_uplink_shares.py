"""A limited uplink in virtual time: shares by rank, and all of it for who is alone."""

import pytest

from nearcast.broker.config.settings import AdaptationSection, Settings
from nearcast.core.model.inputs import RulesSet
from nearcast.testing import VirtualClient, World

KBPS = 400.0
SECONDS = 4.0
SIZE = 1_000
LIMITED = Settings(adaptation=AdaptationSection(uplink_kbps=KBPS))


def readers_with_load(world: World, loads: dict[str, int]) -> dict[str, VirtualClient]:
    """Clients for each of which so many messages wait."""
    broker = world.broker(settings=LIMITED)
    ranks = RulesSet(grants={"captain": {"rank": 3}})
    broker.hub.set_rules(ranks, world.clock.now())
    readers = {name: world.client(name) for name in loads}
    for name, reader in readers.items():
        reader.subscribe(f"news/{name}", qos=1)
    writer = world.client("writer")
    world.settle()
    for number in range(max(loads.values())):
        for name in [each for each, messages in loads.items() if number < messages]:
            writer.publish(f"news/{name}", bytes(SIZE), qos=1)
    return readers


def kbps(reader: VirtualClient) -> float:
    return len(reader.payloads()) * SIZE * 0.008 / SECONDS


def test_shares_are_in_proportion_to_rank() -> None:
    with World(seed=1) as world:
        readers = readers_with_load(world, {"captain": 400, "sailor": 400})
        world.run(SECONDS)
        captain, sailor = kbps(readers["captain"]), kbps(readers["sailor"])
        assert captain / sailor == pytest.approx(4.0, rel=0.15)
        # Messages count with what they take in the queue, which is more than their payload.
        assert 0.6 * KBPS < captain + sailor < KBPS
        world.settle()
        assert [len(each.payloads()) for each in readers.values()] == [400, 400]


def test_who_is_alone_has_all_of_it() -> None:
    with World(seed=2) as world:
        readers = readers_with_load(world, {"captain": 0, "sailor": 400})
        world.run(SECONDS)
        assert 0.6 * KBPS < kbps(readers["sailor"]) < KBPS


def test_without_a_limit_nothing_has_an_allowance() -> None:
    with World() as world:
        broker = world.broker()
        world.client("reader")
        world.settle()
        session = broker.hub.sessions["reader"]
        assert session.allowance is None
