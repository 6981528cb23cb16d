"""A smallest `people` where there are two brokers: each has base sets of its own."""

import json
from random import Random

from msgspec.structs import replace

from nearcast.broker.config.settings import GatheringSection, Settings
from nearcast.testing import ClientOptions, DiskQuality, World, explore
from nearcast.wire.mqtt import Properties, Publish, TopicFilter

NAMES = ("east", "west")
PEOPLE = tuple(f"p{number}" for number in range(5))
K = 3
CLOCK = replace(Settings(), gathering=GatheringSection(every_s=20.0, wait_s=100.0))
LASTING = ClientOptions(
    session_expiry_s=86_400, keep_alive_s=0, clean_start=False, resubscribe=False
)


class TwoBrokers:
    """Two brokers beside each other, at both of which somebody listens and everybody may speak."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.heard: list[Publish] = []
        for name in NAMES:
            world.broker(name, disk=DiskQuality(), settings=CLOCK)
            self.join(name)
            wanted = TopicFilter("spot", qos=2)
            world.clients[f"eve-{name}"].subscribe(wanted)
        world.settle()

    def join(self, name: str) -> None:
        for client in (f"eve-{name}", *(f"{each}-{name}" for each in PEOPLE)):
            self.world.clients.pop(client, None)
            self.world.client(client, LASTING, broker=name)
        self.world.settle()

    def says(self, person: str, name: str, qos: int) -> None:
        hidden = Properties(user_properties=(("nc-people", f"{K}"),))
        client = self.world.clients[f"{person}-{name}"]
        client.publish("spot", b"{}", qos=qos, properties=hidden)
        self.world.settle()

    def restart(self, name: str, down_s: float) -> None:
        self.listen(name)
        for client in (f"eve-{name}", *(f"{each}-{name}" for each in PEOPLE)):
            self.world.clients.pop(client).crash()
        self.world.brokers[name].crash(power_cut=True)
        self.world.run(down_s)
        self.world.brokers[name].start()
        self.join(name)

    def listen(self, name: str) -> list[Publish]:
        self.world.settle()
        self.world.run(0.2)
        client = self.world.clients[f"eve-{name}"]
        found, client.messages[:] = list(client.messages), []
        self.heard += found
        return found


def roam(world: World) -> None:
    """People speak here and there while brokers crash; who listens at both compares."""
    draw = Random(f"two brokers {world.seed}")
    brokers, made = TwoBrokers(world), 0
    for _ in range(40):
        kind = draw.random()
        if kind < 0.75:
            made += 1
            brokers.says(draw.choice(PEOPLE), draw.choice(NAMES), draw.choice((0, 1, 2)))
        elif kind < 0.9:
            world.run(draw.choice((1.0, 15.0, 40.0)))
        else:
            brokers.restart(draw.choice(NAMES), draw.choice((1.0, 30.0, 150.0)))
    world.run(150.0)
    for name in NAMES:
        brokers.listen(name)
    assert brokers.heard
    said = [json.loads(each.payload) for each in brokers.heard]
    assert all(K <= each["people"] <= min(each["count"], len(PEOPLE)) for each in said)
    assert sum(each["count"] for each in said) <= made


def test_each_of_two_brokers_lets_out_no_fewer_people_than_it_must() -> None:
    assert explore(roam, range(4)) == 4


def test_people_at_two_brokers_are_not_added_up() -> None:
    brokers = TwoBrokers(World(seed=1))
    for person, name in zip(PEOPLE[:4], (*NAMES, *NAMES), strict=True):
        brokers.says(person, name, 1)
    brokers.world.run(30.0)
    assert brokers.listen("east") == brokers.listen("west") == []
    brokers.says(PEOPLE[4], "east", 1)
    brokers.world.run(30.0)
    (message,) = brokers.listen("east")
    assert json.loads(message.payload)["people"] == K
    assert brokers.listen("west") == []
