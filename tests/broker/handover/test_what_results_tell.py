"""What the pipeline found of nodes reaches only those who may see these nodes."""

from nearcast.core.model.inputs import RulesSet
from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.core.model.visibility import SEE_ALL, SEE_IDENTITY, SEE_POSITION
from nearcast.testing import ClientOptions, VirtualClient, World
from nearcast.wire.handover import EventRow
from tests.support.clients.pipeline_client import PIPELINE, release, stage

WATCHERS = ("ann", "doctor", "names", "places", "spy")
"""One of the two who met, one who may see all, and those who lack something."""
RULES = RulesSet(
    (
        SightRule(viewer=NodeCondition(nodes=("doctor",)), see=SEE_ALL),
        SightRule(viewer=NodeCondition(nodes=("names",)), see=SEE_IDENTITY),
        SightRule(viewer=NodeCondition(nodes=("places",)), see=SEE_POSITION),
        SightRule(
            viewer=NodeCondition(nodes=("ann",)), other=NodeCondition(nodes=("ben",)), see=SEE_ALL
        ),
    ),
    default=0,
)
MEETING = EventRow("1", "encounters/ann/ben", b"met", lat=53.35, lon=-6.26, about=("ann", "ben"))
TRAFFIC = EventRow("2", "traffic/17", b"many", lat=53.35, lon=-6.26)


def watch(world: World) -> dict[str, VirtualClient]:
    lasting = ClientOptions(session_expiry_s=3_600, clean_start=False, keep_alive_s=0)
    clients = {name: world.client(name, lasting) for name in WATCHERS}
    for client in clients.values():
        client.subscribe("#", qos=1)
    world.settle()
    return clients


def handed_over(world: World, *rows: EventRow) -> None:
    pipeline = world.client("$pipeline~1", PIPELINE)
    release(pipeline, (0, "a", stage(pipeline, list(rows))))
    world.settle()


def test_who_may_not_see_both_does_not_learn_that_they_met(world: World) -> None:
    broker = world.brokers["broker"]
    broker.hub.set_rules(RULES, world.clock.now())
    clients = watch(world)
    handed_over(world, MEETING, TRAFFIC)
    got = {name: client.payloads() for name, client in clients.items()}
    assert got == {
        "ann": [b"met", b"many"], "doctor": [b"met", b"many"],
        "names": [b"many"], "places": [b"many"], "spy": [b"many"],
    }  # fmt: skip


def test_without_rules_everyone_learns_of_it(world: World) -> None:
    clients = watch(world)
    handed_over(world, MEETING)
    assert all(client.payloads() == [b"met"] for client in clients.values())


def test_what_stays_is_hidden_from_those_who_come_later_too(world: World) -> None:
    broker = world.brokers["broker"]
    broker.hub.set_rules(RULES, world.clock.now())
    lasting = EventRow("1", "encounters/ann/ben", b"met", about=("ann", "ben"), retain=True)
    handed_over(world, lasting)
    broker.restart()
    broker.hub.set_rules(RULES, world.clock.now())
    clients = watch(world)
    assert clients["doctor"].payloads() == [b"met"]
    assert clients["spy"].payloads() == []
