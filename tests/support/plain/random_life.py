"""Random lives: clients come and go, move, change, want and say things; all from one seed.

Every step is done by a driver, with sockets or in virtual time, and by the plain situation; what
everyone got must be the same after each.
"""

import base64
import json
from collections import Counter
from random import Random
from typing import Protocol

from nearcast.core.model import Box
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    NO_PROPERTIES,
    Properties,
    Publish,
    TopicFilter,
)
from tests.support.plain.plain_situation import Copy, PlainSituation, Wish

CLIENTS = ("a", "a~p", "b", "b~q", "c", "d")
POINTS = tuple((53.35 + 0.01 * step, -6.26) for step in range(4))
SUBJECTS = ("s/1", "s/2", "t/1")
PATTERNS = ("s/#", "s/+", "#", "t/1", "s/1")
FILTERS = (
    "speed > 50", "NOT (speed > 50)", "kind = 'bus' OR speed = 10", "me.role = kind",
    "distance(me, event) < 1500", "me.role IS NULL AND speed IS NOT NULL",
)  # fmt: skip
PLACES = {"park": Box(53.345, -6.27, 53.365, -6.25), "harbour": Box(53.365, -6.27, 53.385, -6.25)}
GROUP = "$share/g/s/#"


class Driver(Protocol):
    """Somebody who does what the random life says, one step at a time."""

    def connect(self, client: str, version: int, lasting: bool, clean: bool) -> None:
        """Let a client connect."""

    def lose(self, client: str) -> None:
        """Let a client be lost, and the broker notice."""

    def publish(self, client: str, packets: list[Publish]) -> None:
        """Publish all of it at once, and see it acknowledged."""

    def subscribe(self, client: str, wanted: TopicFilter, properties: Properties) -> None:
        """Subscribe, and see it granted."""

    def unsubscribe(self, client: str, topic_filter: str) -> None:
        """Unsubscribe."""

    def later(self, seconds: float) -> None:
        """Let time pass."""

    def restart(self) -> None:
        """Let the broker crash, and start again; nobody connects by itself."""

    def received(self, client: str) -> list[Publish]:
        """All that came to a client since the last time."""


class RandomLife:
    """One life from one seed."""

    def __init__(self, seed: int | str, driver: Driver, *, restarts: bool = False) -> None:
        self._chance = Random(f"life {seed}")
        self._driver = driver
        self._plain = PlainSituation()
        self._restarts = restarts
        self._versions = {client: self._chance.choice((MQTT_5, MQTT_3_1_1)) for client in CLIENTS}
        self._lasts = {client: self._chance.random() < 0.6 for client in CLIENTS}
        self._group_qos = self._chance.randint(0, 2)
        self._count = 0
        self._objects: list[tuple[str, dict[str, str]]] = []
        self.told: list[str] = []
        """What was done, step by step."""
        self.copies = 0
        """How many copies came in all."""

    def live(self, steps: int) -> None:
        """Do so many things, and compare after each."""
        for client in CLIENTS[:3]:
            self._connect(client)
        for _ in range(steps):
            self._step()
            self._compare()

    def _step(self) -> None:
        online = [client for client, s in self._plain.sessions.items() if s.online]
        away = [client for client in CLIENTS if client not in online]
        choices = [
            (self._connect, 3 if away else 0, away),
            (self._lose, 1 if len(online) > 1 else 0, online),
            (self._talk, 14 if online else 0, online),
            (self._subscribe, 5 if online else 0, online),
            (self._unsubscribe, 1 if online else 0, online),
            (self._draw, 1 if online else 0, online),
        ]
        draw = self._chance.random()
        if draw < 0.03:
            self._later()
        elif draw < 0.06 and self._restarts and online:
            self._restart(self._chance.choice(online))
        else:
            action, _, who = self._chance.choices(choices, [weight for _, weight, _ in choices])[0]
            action(self._chance.choice(who))

    # Coming and going

    def _connect(self, client: str) -> None:
        clean = self._chance.random() < 0.15 or not self._lasts[client]
        lasting = self._lasts[client] and not (clean and self._versions[client] != MQTT_5)
        self._tell(f"{client} connects, lasting {lasting}, clean {clean}")
        self._driver.connect(client, self._versions[client], lasting, clean)
        self._plain.connect(client, lasting, clean)

    def _lose(self, client: str) -> None:
        self._tell(f"{client} is lost")
        self._driver.lose(client)
        self._plain.lose(client)

    def _later(self) -> None:
        seconds = self._chance.choice((1_000.0, 2_000.0))
        self._tell(f"{seconds} s later")
        self._driver.later(seconds)
        self._plain.later(seconds)

    def _restart(self, client: str) -> None:
        # Something acknowledged is on disk, and all that came before it.
        self._driver.publish(client, [Publish("$me/context", b"{}", 1)])
        self._plain.patch(client, "", None)
        self._compare()
        self._tell("the broker starts again")
        self._driver.restart()
        self._plain.restart()

    # Talking

    def _talk(self, client: str) -> None:
        """Do one thing by publishing, or a few in one go."""
        packets = []
        for _ in range(self._chance.choice((1, 1, 1, 3, 5))):
            kind = self._chance.choice(("move", "move", "patch", "announce", "say", "say", "say"))
            packets.append(getattr(self, f"_{kind}")(client))
        self._driver.publish(client, packets)

    def _move(self, client: str) -> Publish:
        at = None if self._chance.random() < 0.1 else self._chance.choice(POINTS)
        self._plain.move(client, at)
        return self._said(client, "$me/position", b"" if at is None else _text(at).encode())

    def _patch(self, client: str) -> Publish:
        role = self._chance.choice(("bus", "tram", None))
        self._plain.patch(client, "role", role)
        return self._said(client, "$me/context", json.dumps({"role": role}).encode())

    def _announce(self, client: str) -> Publish:
        subject = self._chance.choice(SUBJECTS)
        to = None if self._chance.random() < 0.5 else self._area()
        self._plain.announce(client, subject, to)
        payload = b"" if to is None else json.dumps({"to": to}).encode()
        return self._said(client, f"$me/announcements/{subject}", payload)

    def _say(self, client: str) -> Publish:
        chance = self._chance
        self._count += 1
        subject, qos, retain = chance.choice(SUBJECTS), chance.randint(0, 2), False
        members = {"n": self._count, "speed": chance.choice((10, 60))}
        payload = json.dumps(members | {"kind": chance.choice(("bus", "tram"))}).encode()
        words: dict[str, str] = {}
        if chance.random() < 0.3:
            words["at"] = _text(chance.choice(POINTS))
        if chance.random() < 0.3:
            words["to"] = self._area()
        kind = chance.random()
        if kind < 0.2:
            retain = True
            payload = payload if chance.random() < 0.8 else b""
        elif kind < 0.4:
            words["object"] = chance.choice(("o", "p"))
        elif kind < 0.5 and self._objects:
            subject, again = chance.choice(self._objects)
            words |= again
        elif kind < 0.6:
            words["id"] = f"id {chance.randint(1, 6)}"
        if (chance.random() < 0.4 or kind >= 0.6) and "valid" not in words:
            words["valid"] = chance.choice(("1500", "2500"))
            if "id" in words or "object" in words:
                key = {name: words[name] for name in ("id", "object") if name in words}
                self._objects.append((subject, key | {"valid": "0"}))
        self._plain.publish(client, subject, payload, qos, retain, words, self._count)
        pairs = tuple((f"nc-{name}", value) for name, value in words.items())
        if self._versions[client] == MQTT_5 and chance.random() < 0.8:
            return self._said(client, subject, payload, qos, retain, pairs)
        in_json = {**words, "base64": base64.b64encode(payload).decode()}
        wrapped = json.dumps(in_json).encode()
        return self._said(client, f"$me/publish/{subject}", wrapped, qos, retain)

    def _draw(self, client: str) -> None:
        name = self._chance.choice(tuple(PLACES))
        box = None if self._chance.random() < 0.2 else PLACES[name]
        if box is None and not self._has(name):
            return
        self._plain.draw("zone", name, box)
        ring = []
        if box is not None:
            s, w, n, e = box.south, box.west, box.north, box.east
            ring = [[w, s], [e, s], [e, n], [w, n], [w, s]]
        shape = {"type": "Polygon", "coordinates": [ring]}
        payload = b"" if box is None else json.dumps(shape).encode()
        self._driver.publish(client, [self._said(client, f"$place/zone/{name}", payload)])

    # Wanting

    def _subscribe(self, client: str) -> None:
        chance, version = self._chance, self._versions[client]
        kind = chance.choice(("plain", "plain", "ours", "ours", "named", "named", "shared"))
        where = chance.choice((None, *FILTERS))
        from_ = self._area() if chance.random() < 0.5 else None
        qos = chance.randint(0, 2)
        if kind == "named" or version != MQTT_5:
            if kind == "plain":
                wish = Wish(chance.choice(PATTERNS), "", qos)
                self._wish(client, wish, TopicFilter(wish.key, qos))
                return
            name = chance.choice(("one", "two"))
            subject, no_local = chance.choice(PATTERNS), chance.random() < 0.3
            envelope = chance.random() < 0.5
            members = {"subject": subject, "qos": qos, "no_local": no_local, "envelope": envelope}
            members |= {n: v for n, v in (("where", where), ("from", from_)) if v is not None}
            wish = Wish(
                f"named {name}", subject, qos, where, from_, True, name, no_local,
                envelope=envelope,
            )  # fmt: skip
            topic, payload = f"$me/subscriptions/{name}", json.dumps(members).encode()
            said = self._said(client, topic, payload)
            self._driver.publish(client, [said])
            self._plain.subscribe(client, wish)
            return
        pairs = [("nc-meta", "1")] if kind != "plain" else []
        if kind != "plain":
            pairs += [("nc-where", where)] if where is not None else []
            pairs += [("nc-from", from_)] if from_ is not None else []
        else:
            where = from_ = None
        if kind == "shared":
            wish = Wish(GROUP, "s/#", self._group_qos, where, from_, True, group="g")
            self._wish(client, wish, TopicFilter(GROUP, self._group_qos), tuple(pairs))
            return
        options = TopicFilter(
            chance.choice(PATTERNS), qos, chance.random() < 0.3, chance.random() < 0.3,
            chance.choice((0, 0, 1, 2)),
        )  # fmt: skip
        wish = Wish(
            options.filter, options.filter, qos, where, from_, kind == "ours", None,
            options.no_local, options.retain_as_published, options.retain_handling,
        )  # fmt: skip
        self._wish(client, wish, options, tuple(pairs))

    def _wish(
        self,
        client: str,
        wish: Wish,
        wanted: TopicFilter,
        pairs: tuple[tuple[str, str], ...] = (),
    ) -> None:
        if not wish.subject:
            wish = Wish(wish.key, wish.key, wish.qos)
        self._tell(f"{client} subscribes to {wish}")
        properties = Properties(user_properties=pairs) if pairs else NO_PROPERTIES
        self._driver.subscribe(client, wanted, properties)
        self._plain.subscribe(client, wish)

    def _unsubscribe(self, client: str) -> None:
        wishes = list(self._plain.sessions[client].wishes.values())
        if not wishes:
            return
        wish = self._chance.choice(wishes)
        self._tell(f"{client} no longer wants {wish.label}")
        if wish.name is None:
            self._driver.unsubscribe(client, wish.key)
        else:
            self._driver.publish(client, [Publish(f"$me/subscriptions/{wish.name}", b"", 1)])
        self._plain.unsubscribe(client, wish.key)

    # Parts of it

    def _area(self) -> str:
        chance = self._chance
        metres = chance.choice((600, 1_500))
        choices = [
            f"circle:{_text(chance.choice(POINTS))},{metres}",
            f"circle:me,{metres}",
            f"circle:{chance.choice('abcd')},{metres}",
            "bbox:53.345,-6.27,53.365,-6.25",
            "place:here/zone",
        ]
        choices += [f"place:{name}" for name in PLACES if self._has(name)]
        return chance.choice(choices)

    def _has(self, name: str) -> bool:
        return any(place.name == name for place in self._plain.places)

    def _said(
        self,
        client: str,
        topic: str,
        payload: bytes,
        qos: int = 1,
        retain: bool = False,
        pairs: tuple[tuple[str, str], ...] = (),
    ) -> Publish:
        self._tell(f"{client} sends {topic} {payload!r} QoS {qos} retain {retain} {pairs}")
        packet = Publish(topic, payload, qos, retain)
        return packet.with_(Properties(user_properties=pairs)) if pairs else packet

    def _tell(self, what: str) -> None:
        self.told.append(what)

    # Comparing

    def _compare(self) -> None:
        """What came to everyone is what should have, each exactly once."""
        shared: Counter[tuple[Copy, str]] = Counter()
        for client, session in self._plain.sessions.items():
            if not session.online:
                continue
            came: Counter[Copy] = Counter()
            for message in self._driver.received(client):
                copy = self._copy(client, message)
                self.copies += 1
                if copy.labels == (GROUP,):
                    shared[copy, client] += 1
                else:
                    came[copy] += 1
            expected = Counter(
                {
                    copy if self._tells(client, copy) else _untold(copy): count
                    for copy, count in self._plain.take(client).items()
                }
            )
            assert came == expected, self._difference(client, came, expected)
        self._compare_shared(shared)

    def _compare_shared(self, came: Counter[tuple[Copy, str]]) -> None:
        """Each copy for a group came to one of those who could be it, or waits for one."""
        for copy, members in self._plain.shared:
            takers = [client for client in sorted(members) if came[copy, client]]
            if takers:
                came[copy, takers[0]] -= 1
            else:
                away = [c for c in members if c not in self._online() and copy.qos]
                assert away, f"nobody of {sorted(members)} got {copy}: {self._story()}"
        self._plain.shared.clear()
        # What waited for one who was away comes later.
        left = [(copy, client) for (copy, client), count in came.items() if count]
        assert all(copy.qos for copy, _ in left), f"{left} came twice: {self._story()}"

    def _online(self) -> set[str]:
        return {client for client, session in self._plain.sessions.items() if session.online}

    def _tells(self, client: str, copy: Copy) -> bool:
        return copy.envelope or self._versions[client] == MQTT_5

    def _copy(self, client: str, message: Publish) -> Copy:
        pairs = message.properties.user_properties
        labels = sorted(value for name, value in pairs if name == "nc-subscription")
        payload, envelope = message.payload, False
        if payload.startswith(b'{"id":'):
            members = json.loads(payload)
            labels, envelope = sorted(members["subscription"]), True
            payload = b"" if "text" in members else json.dumps(members["payload"]).encode()
        return Copy(message.topic, payload, message.qos, message.retain, tuple(labels), envelope)

    def _difference(self, client: str, came: Counter[Copy], expected: Counter[Copy]) -> str:
        missing, more = expected - came, came - expected
        return (
            f"{client} lacks {list(missing.elements())} and got {list(more.elements())} too: "
            + self._story()
        )

    def _story(self) -> str:
        return "\n".join(["", *self.told])


def _untold(copy: Copy) -> Copy:
    return Copy(copy.topic, copy.payload, copy.qos, copy.retain)


def _text(at: tuple[float, float]) -> str:
    return f"{at[0]},{at[1]}"
