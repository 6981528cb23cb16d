"""Random MQTT packets with our words in them: of both versions, mostly valid, as bytes."""

import json
from random import Random

from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    Auth,
    Connect,
    Disconnect,
    EncodeError,
    Packet,
    PingReq,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Subscribe,
    TopicFilter,
    Unsubscribe,
    Will,
    encode,
)
from tests.fuzz.random_filters import filter_text
from tests.support.fuzzing.mutations import HOSTILE_NUMBERS, HOSTILE_TEXTS, mutated_bytes

CLIENTS = ("a", "a~part", "b", "c%2Fd", "me2", "é")
TOPICS = ("s/1", "s/2", "t", "owntracks/a/x", "owntracks/b/x", "a//b", "é", "s/" + "x" * 200)
FILTERS = (
    "s/#", "#", "+/1", "t", "$share/g/s/#", "$share/g/#", "$node/+/position", "$node/#",
    "$node/a/context", "$node/b/online", "$area/z", "$area/#", "$place/#", "$me/errors",
    "$me/nodes", "$SYS/#", "$relate/x", "$me/x", "owntracks/#", "$share/g/$node/#", "a//+",
)  # fmt: skip
AREAS = (
    "circle:53.35,-6.26,500", "circle:me,1000", "circle:a,800", "bbox:53,-7,54,-6", "place:park",
    "place:here/park", "POLYGON((-7 53, -6 53, -6 54, -7 53))", "circle:nobody,5",
    '{"moving":{"with":"b","box":{"width":900,"height":900}}}', "bbox:-90,-180,90,180",
)  # fmt: skip
_POSITIONS = ("53.35,-6.26", "53.36,-6.25", "", "91,0", "0,180", "-90,-180", "1,2,3")
_PAYLOADS = (
    b"", b"x", b'{"speed": 60, "kind": "bus"}', b'{"speed": null}', b"[1, 2]", b"\xff\xfe",
    b'{"a": {"b": {"c": [1, "\xc3\xa9"]}}}', b"1" * 5_000, b"[" * 1_500, b'{"_type": "location"}',
    b'{"_type": "location", "lat": 53.35, "lon": -6.26, "tid": "x"}',
)  # fmt: skip
_EVENT_WORDS = {
    "nc-at": _POSITIONS,
    "nc-to": AREAS,
    "nc-valid": ("60", "0", "0.5", "1e14"),
    "nc-object": ("o1", "o2", "é"),
    "nc-priority": ("1", "3"),
    "nc-deadline": ("5", "0"),
    "nc-time": ("2026-11-15T14:30:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"),
    "nc-id": ("id-1", "id-2"),
}
_POLYGON = (
    b'{"type":"Polygon","coordinates":[[[-6.27,53.34],[-6.25,53.34],[-6.25,53.36],[-6.27,53.34]]]}'
)


class PacketSource:
    """Packets of one client, one after the other."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.version = random.choice((MQTT_5, MQTT_5, MQTT_3_1_1))

    def connect(self) -> bytes:
        """Return a CONNECT."""
        random = self._random
        will = None
        if random.random() < 0.4:
            topic, payload, words = self._message()
            properties = Properties(
                user_properties=words, will_delay_interval=random.choice((None, 0, 1, 5))
            )
            will = Will(topic, payload, random.randrange(3), random.random() < 0.3, properties)
        packet = Connect(
            random.choice(CLIENTS),
            self.version,
            random.random() < 0.5,
            random.choice((0, 1, 60)),
            will,
            properties=Properties(
                session_expiry_interval=random.choice((None, 0, 2, 100, 0xFFFF_FFFF)),
                receive_maximum=random.choice((None, None, 1, 2)),
                topic_alias_maximum=random.choice((None, 2)),
                maximum_packet_size=random.choice((None, None, None, 200)),
            ),
        )
        return self._bytes(packet)

    def next(self) -> bytes:
        """Return some packet, now and then broken."""
        random = self._random
        if random.random() < 0.02:
            return random.randbytes(random.randint(1, 40))
        data = self._bytes(self._packet())
        return mutated_bytes(random, data) if random.random() < 0.08 else data

    def _packet(self) -> Packet:
        random, packet_id = self._random, self._packet_id()
        reason = random.choice((ReasonCode.SUCCESS, ReasonCode.UNSPECIFIED_ERROR))
        match random.randrange(20):
            case 0 | 1 | 2 | 3:
                return self._subscribe(packet_id)
            case 4:
                return Unsubscribe(packet_id, tuple(random.choices(FILTERS, k=2)))
            case 5 | 6:
                return random.choice((PubAck, PubRec, PubComp))(packet_id, reason)
            case 7:
                return PubRel(packet_id)
            case 8:
                return random.choice((PingReq(), Disconnect(), Auth(), Connect("a", self.version)))
            case _:
                return self._publish(packet_id)

    def _publish(self, packet_id: int) -> Publish:
        random = self._random
        topic, payload, words = self._message()
        qos = random.randrange(3)
        packet = Publish(topic, payload, qos, random.random() < 0.2, False, packet_id if qos else 0)
        alias = random.choice((None, None, None, 1, 2, 65))
        properties = Properties(
            user_properties=words,
            topic_alias=alias,
            message_expiry_interval=random.choice((None, None, 0, 1, 0xFFFF_FFFF)),
        )
        return packet.with_(properties) if self.version == MQTT_5 else packet

    def _message(self) -> tuple[str, bytes, tuple[tuple[str, str], ...]]:
        """Return a topic, a payload and user properties that belong together."""
        random = self._random
        match random.randrange(12):
            case 0 | 1:
                return "$me/position", random.choice(_POSITIONS).encode(), ()
            case 2:
                return (
                    "$me/context",
                    random.choice((*_PAYLOADS, b'{"role":"x","friends":["a"]}')),
                    (),
                )
            case 3:
                body = f'{{"subject":"s/#","where":{_quoted(filter_text(random, 2))}}}'
                name = random.choice(("n1", "n2", "é%2F"))
                return f"$me/subscriptions/{name}", random.choice((body.encode(), b"", b"{}")), ()
            case 4:
                area = random.choice((f'{{"area":{_quoted(random.choice(AREAS))}}}', "", "{}"))
                return random.choice(("$area/z", "$area/" + "x" * 201)), area.encode(), ()
            case 5:
                place = random.choice(
                    ("$place/park/park", "$place/park/é", "$place/x", "$place/a/b/c")
                )
                return place, random.choice((_POLYGON, b"", b"{}", *_PAYLOADS)), ()
            case 6:
                to = random.choice((f'{{"to":{_quoted(random.choice(AREAS))}}}', ""))
                return "$me/announcements/s/1", to.encode(), ()
            case 7:
                at = _quoted(random.choice(_POSITIONS))
                body = f'{{"at":{at},"valid":5,"payload":{{"speed":1}}}}'
                return "$me/publish/s/1", body.encode(), ()
            case 8:
                others = ("$node/a/position", "$me/nodes", "$relate/x", "$pipeline/tick", "$SYS/x")
                return random.choice(others), random.choice(_PAYLOADS), ()
            case _:
                return random.choice(TOPICS), random.choice(_PAYLOADS), self._event_words()

    def _event_words(self) -> tuple[tuple[str, str], ...]:
        random = self._random
        words = random.sample(list(_EVENT_WORDS), random.choice((0, 0, 1, 2, 3)))
        pairs = [(word, random.choice(_EVENT_WORDS[word])) for word in words]
        if random.random() < 0.05:
            value = random.choice((*HOSTILE_NUMBERS, *HOSTILE_TEXTS)).replace("\0", "")
            pairs.append((random.choice((*_EVENT_WORDS, "nc-x", "other")), value))
        return tuple(pairs)

    def _subscribe(self, packet_id: int) -> Subscribe:
        random = self._random
        filters = tuple(
            TopicFilter(
                random.choice(FILTERS),
                random.randrange(3),
                random.random() < 0.1,
                random.random() < 0.1,
                random.randrange(3),
            )
            for _ in range(random.choice((1, 1, 1, 3)))
        )
        if self.version != MQTT_5:
            filters = tuple(TopicFilter(each.filter, each.qos) for each in filters)
        pairs = []
        if random.random() < 0.3:
            pairs.append(("nc-where", filter_text(random, 2).replace("\0", "")))
        if random.random() < 0.3:
            pairs.append(("nc-from", random.choice(AREAS)))
        if random.random() < 0.2:
            pairs.append(("nc-meta", random.choice(("1", "0", "x"))))
        identifiers = random.choice(((), (), (1,), (268_435_455,)))
        properties = Properties(user_properties=tuple(pairs), subscription_identifiers=identifiers)
        return Subscribe(packet_id, filters, properties)

    def _packet_id(self) -> int:
        return self._random.choice((1, 2, 3, 4, 5, 0xFFFF))

    def _bytes(self, packet: Packet) -> bytes:
        try:
            return encode(packet, self.version)
        except EncodeError:
            # What MQTT cannot carry, such as a topic with a NUL, is somebody else's packet.
            return encode(PingReq(), self.version)


def _quoted(text: str) -> str:
    return json.dumps(text)
