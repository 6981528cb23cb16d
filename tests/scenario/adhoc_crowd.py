"""A crowd without a broker on a bad radio channel, from one seed, with what must hold of it.

Nodes move, announce, raise, crash and come back; one records what it hears and sends it again
later, and garbage beside. Some crowds sign, and then one of them is a mole: it has the group key
and a signing key, and forges in the names of others. Some go by pseudonyms that change. Checked at
every delivery: the event was raised, as it is, by whom it says; it has the announced type; the node
subscribed to it, by a plain filter; it is inside the area, by a plain distance; nobody gets an
event twice; and the order of producers is kept.
"""

from random import Random

from msgspec.structs import replace

from nearcast.core.model.event import Delivery
from nearcast.core.model.geometry.area import Around, MovingCircle, circle
from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.discovery.discovery import described_by
from nearcast.core.proximity.discovery.event_type import EventType, event_type
from nearcast.core.proximity.discovery.group_id import group_id
from nearcast.core.proximity.errors import AdmissionError
from nearcast.core.proximity.messages import Beacon, EventMessage, Holdings, Message, Request
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.simulation.network.radio import Radio, RadioSettings
from nearcast.simulation.radio_node import BEACONS, RadioNode
from nearcast.simulation.virtual_clock import VirtualClock
from nearcast.wire.beacons.datagram_codec import DatagramCodec
from nearcast.wire.beacons.group_key import GroupKey, KeyRing
from nearcast.wire.beacons.signatures import Member, Signatures, SigningKey
from tests.support.radio_field import at_m

SECONDS, STEP_S = 20.0, 0.5
KEYS = (GroupKey(b"g" * 32),)
RING = KeyRing(KEYS, b"crowd")
MOLE = "mole"


class Raised:
    """An event as it was raised."""

    def __init__(
        self, attributes: dict[str, object], radius_m: float, position: Position, time: float
    ) -> None:
        self.attributes = attributes
        self.radius_m = radius_m
        self.position = position
        self.time = time


class AdhocCrowd:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = Random(f"{seed}/crowd")
        self.clock = VirtualClock(seed)
        self.places: dict[str, tuple[float, float]] = {}
        loss = chance.choice((0.0, 0.1, 0.4))
        self.radio = Radio(self.clock, self._where, RadioSettings(loss=loss))
        self.settings = ProximitySettings(
            forward_delay_s=chance.choice((0.0, 0.01)), beacon_most_s=chance.choice((1.0, 5.0)),
            gossip_share=chance.choice((1.0, 0.8)), recovers=chance.random() < 0.5,
        )  # fmt: skip
        self.signs = chance.random() < 0.4
        self.hides = chance.random() < 0.3
        self.errors_s = chance.choice((0.0, 0.4))
        self.raised: dict[str, Raised] = {}
        self.got: dict[tuple[str, int], set[str]] = {}
        self.last: dict[tuple[str, int, str, str], int] = {}
        self.types: dict[str, EventType] = {
            f"kind/{number}": event_type(
                f"kind/{number}", {"value": int, "name": str},
                validity=chance.choice((None, 8.0)), order=chance.choice(("none", "producer")),
                priority=chance.randint(1, 3),
            )
            for number in range(3)
        }  # fmt: skip
        self.names = [f"n{number}" for number in range(chance.randint(3, 8))]
        self.secrets = {
            name: SigningKey(f"{name}/{seed}".encode().ljust(32, b"."))
            for name in [*self.names, MOLE]
        }
        self.members = {name: Member(key.public) for name, key in self.secrets.items()}
        self.starts = dict.fromkeys(self.names, 0)
        self.up: dict[str, RadioNode] = {}
        self.areas: dict[str, dict[str, float]] = {}
        self.wants: dict[str, dict[str, int]] = {}
        self.speeds = {
            name: (chance.uniform(-25, 25), chance.uniform(-25, 25)) for name in self.names
        }
        self.deliveries = 0
        self.recorded: list[tuple[bytes, str]] = []
        for name in self.names:
            self.places[name] = chance.uniform(-250, 250), chance.uniform(-250, 250)
            self._start(name)
        self.places["thief"] = 0.0, 0.0
        self._thief = self.radio.open("thief", lambda data, sender: self._record(data))
        self._thief.join(BEACONS)
        self._mole = DatagramCodec(
            KeyRing(KEYS, b"mole"), self._thief.largest_bytes,
            Signatures(MOLE, self.secrets[MOLE], None, RING.node_of),
        )  # fmt: skip

    def run(self) -> None:
        """Let everything happen, and check it."""
        while self.clock.elapsed_s < SECONDS:
            self.clock.run(STEP_S)
            for name in self.names:
                self._act(name)
            self._attack()

    # What happens

    def _where(self, name: str) -> Position | None:
        at = self.places.get(name)
        return None if at is None else at_m(*at)

    def _start(self, name: str) -> None:
        self.starts[name] += 1
        chance = self.chance
        node = self.up[name] = RadioNode(
            self.radio.open(name), self.clock, self.settings, incarnation=self.starts[name],
            keys=KEYS, clock_error_s=chance.uniform(-self.errors_s, self.errors_s),
            deliver=self._check, sign=self.secrets[name] if self.signs else None,
            members=self.members if self.signs else None,
        )  # fmt: skip
        self.got[name, self.starts[name]] = set()
        self.areas[name], self.wants[name] = {}, {}
        if self.hides:
            node.rename(self._pseudonym(name))
        node.move(at_m(*self.places[name]))
        for subject in self.types:
            if chance.random() < 0.4:
                self._announce(name, subject)
            if chance.random() < 0.6:
                least = chance.choice((0, 50))
                wanted = node.subscribe(subject, f"value >= {least}")
                self.wants[name][wanted.id] = least

    def _announce(self, name: str, subject: str) -> None:
        radius_m = self.chance.choice((80.0, 180.0, 400.0))
        self.up[name].announce(self.types[subject], circle("me", radius_m))
        self.areas[name][subject] = radius_m

    def _act(self, name: str) -> None:
        chance, node = self.chance, self.up.get(name)
        if node is None:
            if chance.random() < 0.3:
                self._start(name)
            return
        if chance.random() < 0.01:
            node.crash()
            del self.up[name]
            return
        (x, y), (dx, dy) = self.places[name], self.speeds[name]
        if abs(x) > 350 or abs(y) > 350:
            self.speeds[name] = dx, dy = -x / 20.0, -y / 20.0
        self.places[name] = x + dx * STEP_S, y + dy * STEP_S
        node.move(at_m(*self.places[name]))
        if self.hides and chance.random() < 0.05:
            node.rename(self._pseudonym(name))
        for subject in list(self.areas[name]):
            if chance.random() < 0.03:
                node.unannounce(subject)
                del self.areas[name][subject]
            else:
                for _ in range(chance.choice((0, 0, 1, 3))):
                    self._raise(name, subject)

    def _raise(self, name: str, subject: str) -> None:
        attributes: dict[str, object] = {"value": self.chance.randrange(100), "name": name}
        position, node = at_m(*self.places[name]), self.up[name]
        number = node.node.proximities.counts.events_raised + 1
        alias = node.node.proximities.names.alias
        event = f"{alias}-{self.starts[name]:x}-{number}"
        radius_m = self.areas[name][subject]
        self.raised[event] = Raised(attributes, radius_m, position, self.clock.now())
        try:
            assert node.raise_event(subject, attributes) == event
        except AdmissionError:
            del self.raised[event]

    def _pseudonym(self, name: str) -> str:
        return KEYS[0].pseudonym(name, self.chance.randbytes(6))

    def _record(self, data: bytes) -> None:
        self.recorded.append((data, BEACONS))

    def _attack(self) -> None:
        chance = self.chance
        if self.signs and self.recorded:
            self._forge(chance.choice(self.recorded)[0])
        for group in {each for node in self.up.values() for each in node.node.proximities.groups}:
            self._thief.join(f"{group:06x}")
            if self.recorded and chance.random() < 0.3:
                data, _ = chance.choice(self.recorded)
                self._thief.send(data, f"{group:06x}")
        if self.recorded:
            data, _ = chance.choice(self.recorded)
            self._thief.send(data, BEACONS)
            self._thief.send(chance.randbytes(chance.randint(0, 200)), BEACONS)

    def _forge(self, heard: bytes) -> None:
        """Say something else in the name of who was heard, with all that a member has."""
        message = self._mole.decode(heard, self.clock.now())
        now = self.clock.now()
        if isinstance(message, Beacon):
            false: Message = replace(message, number=message.number + 1, time=now, signature=b"")
            event = EventMessage(
                group_id(message.type, described_by(message)), message.producer,
                message.incarnation, 10**6, 10**6, message.type.subject, now, message.naval,
                message.scale, True, b'{"value":66,"name":"mole"}',
            )  # fmt: skip
            for each in (event, replace(event, number=10**6 + 1, producer=MOLE, publisher="n0")):
                for data in self._mole.encode(each):
                    self._thief.send(data, f"{event.group:06x}")
        elif isinstance(message, Holdings | Request):
            false = replace(message, number=message.number + 1, time=now, signature=b"")
        else:
            return
        for data in self._mole.encode(false):
            self._thief.send(data, BEACONS)

    # What must hold

    def _check(self, name: str, delivery: Delivery) -> None:
        event = delivery.event
        self.deliveries += 1
        raised = self.raised[event.id]
        run = self.starts[name]
        publisher = RING.node_of(event.publisher)
        assert publisher == event.attributes["name"] != name
        assert event.id.rsplit("-", 2)[0] == event.publisher
        assert event.attributes == raised.attributes
        self.types[event.subject].check(event.attributes)
        assert event.id not in self.got[name, run], "twice"
        self.got[name, run].add(event.id)
        least = min(self.wants[name][each] for each in delivery.subscriptions)
        assert event.attributes["value"] >= least  # type: ignore[operator]
        self._check_place(name, event.to, raised)
        if self.types[event.subject].order == "producer":
            _, incarnation, number = event.id.rsplit("-", 2)
            key = name, run, event.subject, f"{event.publisher}-{incarnation}"
            assert self.last.get(key, 0) < int(number), "out of order"
            self.last[key] = int(number)

    def _check_place(self, name: str, to: object, raised: Raised) -> None:
        """Inside, as far as the receiver can know: positions are as old as the latest message."""
        assert isinstance(to, Around)
        assert isinstance(to.shape, MovingCircle)
        here = at_m(*self.places[name])
        moved_m = 40.0 * (self.clock.now() - raised.time + 2.0 * self.settings.beacon_most_s)
        assert here.distance_m(raised.position) <= to.shape.radius_m + moved_m
