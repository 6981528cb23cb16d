"""Colliding group identifiers: how often, and what comes of one that is forced (4.4, 5.3.1).

The text announces 40 types with names of 14 to 18 characters and the same circle of 200 m, and met
no collision. Chance says how many there are to be expected; a forced one must reach nobody.
"""

from itertools import count
from random import Random

from nearcast.core.model.geometry.area import circle
from nearcast.core.model.inputs import Published
from nearcast.core.proximity.discovery.event_type import EventType
from nearcast.core.proximity.discovery.group_id import BITS, group_id
from nearcast.core.proximity.discovery.proximity import proximity
from nearcast.core.proximity.proximity_node import ProximityNode
from nearcast.experiments.experiment_result import ExperimentRow
from nearcast.experiments.steam.crowds import CENTRE

TYPES = 40
LETTERS = "abcdefghijklmnopqrstuvwxyz "
AREA = circle((CENTRE.lat, CENTRE.lon), 200.0)


def collision_rows(sets: int, seed: int) -> list[ExperimentRow]:
    """Return rows about `sets` sets of types, and one about a forced collision."""
    random = Random(f"{seed}/collisions")
    collided = sum(_collides(random) for _ in range(sets))
    expected = sets * TYPES * (TYPES - 1) / 2.0 / 2.0**BITS
    passed, discarded = forced()
    return [
        ExperimentRow(
            "Collisions", f"{TYPES} types in one place, {sets} times: sets with a collision",
            0.0, collided, "sets",
            note=f"The text did it once; {expected:.2g} are to be expected of {BITS} bits.",
        ),
        ExperimentRow(
            "Collisions", "forced: events of the other group that passed the check", 0.0, passed,
            "events", note=f"{discarded} were discarded and counted.",
        ),
    ]  # fmt: skip


def _collides(random: Random) -> bool:
    area = proximity(AREA, CENTRE)
    names = {"".join(random.choices(LETTERS, k=random.randint(14, 18))) for _ in range(TYPES)}
    return len({group_id(EventType(name), area) for name in names}) < len(names)


def colliding_subjects() -> tuple[str, str]:
    """Return two subjects whose events have one group in the same proximity."""
    area, known = proximity(AREA, CENTRE), dict[int, str]()
    for number in count():
        subject = f"event type {number:04}"
        group = group_id(EventType(subject), area)
        if group in known:
            return known[group], subject
        known[group] = subject
    raise AssertionError


def forced(events: int = 100) -> tuple[int, int]:
    """Send events of a colliding type to who joined the other; return passed and discarded."""
    one, other = colliding_subjects()
    member, producer = ProximityNode("member"), ProximityNode("producer")
    stranger = ProximityNode("stranger")
    for node in (member, producer, stranger):
        node.move(CENTRE, 0.0)
    member.subscribe("s", one, 0.0)
    for send in producer.announce(EventType(one), AREA, 0.0).sends:
        member.receive(send.message, 0.0)
    stranger.announce(EventType(other), AREA, 0.0)
    passed = 0
    for number in range(events):
        now = 0.1 * number
        _, step = stranger.raise_event(other, {"number": number}, now)
        for send in step.sends:
            assert send.group is None or send.group in member.groups
            step = member.receive(send.message, now)
            passed += sum(isinstance(each, Published) for each in step.inputs)
    return passed, member.counts.collisions
