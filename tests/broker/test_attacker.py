"""An attacker over MQTT learns nothing of a position that it may not see.

The test knows the truth: the same attack runs against brokers that differ only in where the victim
is. Every byte that the attacker and its confederate receive must be the same. Without rules the
bytes differ, which shows that the attack would have told.
"""

import re
from collections.abc import Callable

import pytest

from nearcast.broker.hub import Hub
from nearcast.core.model import SEE_ATTRIBUTES, SEE_IDENTITY
from nearcast.core.model.inputs import RulesSet
from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.wire.mqtt import Properties, Publish, Subscribe, TopicFilter, encode
from tests.broker.hub_client import Side, run

EVENT_ID = re.compile(rb"(?<=nc-id\0.)[0-9a-zA-Z_-]+")
HERE, THERE, FAR = "53.3500,-6.2600", "53.3700,-6.2300", "53.5000,-6.0000"
HIDDEN = RulesSet(
    (
        SightRule(
            viewer=NodeCondition(nodes=("eve*",)),
            other=NodeCondition(nodes=("victim",)),
            see=SEE_IDENTITY | SEE_ATTRIBUTES,
        ),
    )
)
AREAS = (
    *(f"circle:{place},{metres}" for place in (HERE, THERE) for metres in (50, 500, 3000)),
    "circle:victim,500",
    "circle:me,100000",
    "place:yard",
    "bbox:53.34,-6.27,53.36,-6.25",
)
FILTERS = (
    "distance(me, publisher) < 3000",
    "distance(publisher, POINT(-6.26 53.35)) < 100",
    "distance(event, POINT(-6.26 53.35)) < 100",
    "approaching(publisher)",
    "publisher.position IS NULL",
    "publisher.position IS NOT NULL",
    "event.position IS NULL",
    "S_INTERSECTS(event.position, BBOX(-6.27, 53.34, -6.25, 53.36))",
    "count('news/#', 'n >= 0', 3000) > 0",
    "NOT (distance(me, publisher) < 3000)",
)


class World:
    """A broker with a victim at some place, an attacker and its confederate."""

    def __init__(self, rules: RulesSet) -> None:
        self.hub = Hub()
        self.hub.set_rules(rules, 1.0)
        self.sides = {name: Side(self.hub, name, 5) for name in ("victim", "eve", "eve2")}
        self.heard: dict[str, list[bytes]] = {name: [] for name in self.sides}
        for name, side in self.sides.items():
            side.hear = self._listening(name, side.hear)  # type: ignore[assignment,method-assign]
        run(self.hub, self.sides)

    def _listening(
        self, name: str, hear: Callable[[Hub, bytes], None]
    ) -> Callable[[Hub, bytes], None]:
        def listen(hub: Hub, data: bytes) -> None:
            # Ids of events are random, in the same world too.
            self.heard[name].append(EVENT_ID.sub(b"", data))
            hear(hub, data)

        return listen

    def say(self, name: str, topic: str, payload: str = "", **words: str) -> None:
        side = self.sides[name]
        pairs = tuple((f"nc-{word.strip('_')}", value) for word, value in words.items())
        packet = Publish(topic, payload.encode(), 1, packet_id=side.next_id())
        side.feed(self.hub, encode(packet.with_(Properties(user_properties=pairs))))
        run(self.hub, self.sides)

    def want(self, name: str, topic: str, **words: str) -> None:
        side = self.sides[name]
        pairs = tuple((f"nc-{word.strip('_')}", value) for word, value in words.items())
        packet = Subscribe(
            side.next_id(), (TopicFilter(topic, 1),), Properties(user_properties=pairs)
        )
        side.feed(self.hub, encode(packet))
        run(self.hub, self.sides)


def attack(rules: RulesSet, places: tuple[str, str]) -> dict[str, list[bytes]]:
    """Try everything while the victim is at one place and then at another."""
    world = World(rules)
    corners = "[[[-6.27,53.34],[-6.25,53.34],[-6.25,53.36],[-6.27,53.36],[-6.27,53.34]]]"
    world.say("eve", "$place/yard/yard", f'{{"type": "Polygon", "coordinates": {corners}}}')
    world.say("eve", "$me/position", HERE)
    world.say("eve2", "$me/position", THERE)
    world.say("victim", "$me/position", places[0])
    world.want("eve", "$me/errors")
    for topic in ("$node/victim/position", "$node/victim/context", "$node/+/position", "$node/#"):
        world.want("eve", topic)
    for number, area in enumerate(AREAS):
        world.want("eve", f"news/{number}", from_=area, meta="1")
        world.say("eve", f"$area/a{number}", f'{{"area": "{area}"}}')
        world.want("eve2", f"$area/a{number}")
    for number, where in enumerate(FILTERS):
        world.want("eve2", f"story/{number}", where=where)
    world.want("eve2", "aimed/#", meta="1")
    world.want("eve2", "news/#", meta="1")
    for place in places:
        world.say("victim", "$me/position", place)
        world.say("victim", "$me/context", '{"mood": "calm"}')
        for number in range(len(AREAS)):
            world.say("victim", f"news/{number}", '{"n": 1}')
        for number in range(len(FILTERS)):
            world.say("victim", f"story/{number}", '{"n": 1}')
        # Whom do areas round the victim reach?
        for metres in (100, 3000, 50_000):
            world.say("eve", f"aimed/{metres}", "x", to=f"circle:victim,{metres}")
            world.say("eve", f"aimed/live/{metres}", "x", to=f"circle:victim,{metres}", valid="60")
        world.say("eve", "$me/announcements/aimed/said", '{"to": "circle:victim,3000"}')
        world.say("eve", "aimed/said", "x")
        world.say("eve", "$me/subscriptions/bad", '{"subject": "x", "from": "circle:victim,-5"}')
    world.say("victim", "news/0", '{"n": 2}', valid="60")
    world.say("eve", "$me/position", THERE)
    world.say("eve2", "$me/position", HERE)
    return {name: heard for name, heard in world.heard.items() if name != "victim"}


PLACES = [(HERE, HERE), (HERE, THERE), (THERE, FAR), (FAR, HERE), (FAR, FAR)]


@pytest.mark.parametrize("places", PLACES[1:], ids=str)
def test_every_byte_is_the_same_wherever_the_victim_is(places: tuple[str, str]) -> None:
    assert attack(HIDDEN, places) == attack(HIDDEN, PLACES[0])


def test_without_rules_the_attack_tells() -> None:
    assert attack(RulesSet(), PLACES[1]) != attack(RulesSet(), PLACES[0])
