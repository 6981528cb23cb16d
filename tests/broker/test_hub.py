"""The hub against a plain broker of a few lines: whatever way a message takes, who gets it is same.

Short cuts (routes, runs of one topic, shared frames) and ticks of any size must not show.
"""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from nearcast.broker.config.settings import Limits, Settings
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.core.model.subject import subject_matches
from nearcast.wire.mqtt import (
    ConnAck,
    Connect,
    Decoder,
    Packet,
    Properties,
    PubAck,
    Publish,
    ReasonCode,
    Sender,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    encode,
)
from tests.broker.hub_client import Got, Side, run

NAMES = ("ann", "bob~1", "bob~2")


class Does(Struct, frozen=True):
    """Something that a client does."""

    name: str


class Wants(Does, frozen=True):
    pattern: str
    qos: int
    no_local: bool
    identifier: int | None


class Leaves(Does, frozen=True):
    pattern: str


class Says(Does, frozen=True):
    topic: str
    payload: bytes
    qos: int
    retain: bool
    expiry: int | None
    pairs: tuple[tuple[str, str], ...]


topics = st.sampled_from(("a", "a/b", "a/c", "d"))
patterns = st.sampled_from(("a", "a/+", "a/#", "#", "+/b", "d"))
names = st.sampled_from(NAMES)
actions = st.one_of(
    st.builds(
        Wants, names, patterns, st.integers(0, 2), st.booleans(), st.none() | st.integers(1, 9)
    ),
    st.builds(Leaves, names, patterns),
    *[
        st.builds(
            Says,
            names,
            topics,
            st.sampled_from((b"", b"x", b'{"a":1}', b"y" * 300)),
            st.integers(0, 2),
            st.sampled_from((False, False, True)),
            st.none() | st.just(100),
            st.sampled_from(((), (("k", "v"), ("k", "w")))),
        )
    ]
    * 3,
)
ticks = st.lists(st.lists(actions, min_size=1, max_size=6), min_size=1, max_size=6)


class PlainBroker:
    """What a broker does, one thing after the other."""

    def __init__(self, versions: dict[str, int]) -> None:
        self.versions = versions
        self.wanted: dict[str, dict[str, Wants]] = {name: {} for name in NAMES}
        self.retained: dict[str, Says] = {}
        self.got: dict[str, list[Got]] = defaultdict(list)

    def do(self, action: Does) -> None:
        match action:
            case Wants(name, pattern):
                self.wanted[name][pattern] = action
                for said in self.retained.values():
                    if subject_matches(pattern, said.topic) and not (
                        action.no_local and said.name == name
                    ):
                        self._give(name, said, [action], True)
            case Leaves(name, pattern):
                self.wanted[name].pop(pattern, None)
            case Says():
                for name, wanted in self.wanted.items():
                    fit = [
                        each
                        for each in wanted.values()
                        if subject_matches(each.pattern, action.topic)
                        and not (each.no_local and name == action.name)
                    ]
                    if fit:
                        self._give(name, action, fit, False)
                if action.retain:
                    self.retained.pop(action.topic, None)
                    if action.payload:
                        self.retained[action.topic] = action

    def _give(self, name: str, said: Says, fit: list[Wants], retain: bool) -> None:
        qos = min(said.qos, max(each.qos for each in fit))
        five = self.versions[name] == 5
        found = sorted(each.identifier for each in fit if each.identifier is not None)
        pairs = said.pairs if five and self.versions[said.name] == 5 else ()
        identifiers = tuple(found) if five else ()
        self.got[name].append((said.topic, said.payload, qos, retain, identifiers, pairs))


def packet_of(side: Side, action: Does) -> bytes:
    five = side.version == 5
    match action:
        case Wants(_, pattern, qos, no_local, identifier):
            given_ = () if identifier is None else (identifier,)
            properties = Properties(subscription_identifiers=given_ if five else ())
            wanted = TopicFilter(pattern, qos, no_local and five)
            return encode(Subscribe(side.next_id(), (wanted,), properties), side.version)
        case Leaves(_, pattern):
            return encode(Unsubscribe(side.next_id(), (pattern,)), side.version)
        case Says(_, topic, payload, qos, retain, expiry, pairs):
            packet_id = side.next_id() if qos else 0
            packet = Publish(topic, payload, qos, retain, False, packet_id)
            if five:
                found = Properties(message_expiry_interval=expiry, user_properties=pairs)
                packet = packet.with_(found)
            return encode(packet, side.version)
    raise AssertionError(action)


def in_version(action: Does, version: int) -> Does:
    """What remains of it in MQTT 3."""
    if isinstance(action, Wants) and version != 5:
        return Wants(action.name, action.pattern, action.qos, False, None)
    return action


def by_topic_and_qos(got: list[Got]) -> dict[tuple[str, int], list[Got]]:
    found: dict[tuple[str, int], list[Got]] = defaultdict(list)
    for each in got:
        found[each[0], each[2]].append(each)
    return found


@settings(max_examples=150, deadline=None)
@given(ticks, st.tuples(*[st.sampled_from((3, 4, 5))] * 3))
def test_everyone_gets_what_a_plain_broker_gives(
    steps: list[list[Does]], versions: tuple[int, int, int]
) -> None:
    chosen = dict(zip(NAMES, versions, strict=True))
    hub, plain = Hub(), PlainBroker(chosen)
    sides = {name: Side(hub, name, version) for name, version in chosen.items()}
    run(hub, sides)
    for actions_ in steps:
        for action in actions_:
            side = sides[action.name]
            side.feed(hub, packet_of(side, action))
            plain.do(in_version(action, side.version))
        run(hub, sides)
    for name, side in sides.items():
        assert by_topic_and_qos(side.got) == by_topic_and_qos(plain.got[name])


def test_many_who_come_and_go_at_once_are_taken_a_few_at_a_time() -> None:
    hub = Hub()
    connections = []
    for number in range(1_000):
        side = Connection()
        decoder = Decoder()
        hub.receive(side, decoder.feed(encode(Connect(f"client-{number}"))), 1.0)
        connections.append(side)
    sizes = []
    while hub.next_timer(1.0) is not None:
        hub.tick(1.0)
        sizes.append(len(hub.sessions))
    assert sizes == [200, 400, 600, 800, 1_000]
    for side in connections:
        hub.lost(side)
    sizes = []
    while hub.next_timer(1.0) is not None:
        hub.tick(1.0)
        sizes.append(len(hub.sessions))
    assert sizes == [800, 600, 400, 200, 0]
    hub.validate_state()


def answers(limits: Limits, *packets: bytes) -> list[Packet]:
    """What a hub with these limits answers to one client."""
    hub = Hub(Settings(limits=limits))
    side, decoder = Connection(), Decoder()
    found: list[Packet] = []
    heard = Decoder(sender=Sender.SERVER, version=5)
    for packet in packets:
        hub.receive(side, decoder.feed(packet), 1.0)
        for write in hub.tick(1.0).writes:
            found += heard.feed(write.data)
    return found


def test_one_session_too_many_is_refused_and_one_that_ends_at_once_is_not() -> None:
    lasting = Properties(session_expiry_interval=60)
    hub = Hub(Settings(limits=Limits(sessions=1)))
    reasons = []
    for name, properties in (("a", lasting), ("b", lasting), ("c", Properties())):
        side, heard = Connection(), Decoder(sender=Sender.SERVER, version=5)
        hub.receive(side, Decoder().feed(encode(Connect(name, properties=properties))), 1.0)
        for write in hub.tick(1.0).writes:
            for packet in heard.feed(write.data):
                assert isinstance(packet, ConnAck)
                reasons.append(packet.reason_code)
    assert reasons == [ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED, ReasonCode.SUCCESS]


def test_too_many_filters_in_one_unsubscribe_change_nothing() -> None:
    unsubscribe = encode(Unsubscribe(2, ("a", "b", "c")))
    found = answers(Limits(filters_per_packet=2), encode(Connect("a")), unsubscribe)
    assert isinstance(found[-1], UnsubAck)
    assert all(reason.failed for reason in found[-1].reason_codes)


def test_a_topic_beyond_the_limits_is_refused_whichever_way_it_takes() -> None:
    limits = Limits(topic_levels=3, topic_bytes=16)
    for topic, is_taken in (
        ("a/b/c", True), ("a/b/c/d", False), ("/" * 3, False), ("x" * 16, True), ("x" * 17, False),
        ("\u00e9" * 8, True), ("\u00e9" * 9, False),
    ):  # fmt: skip
        found = answers(limits, encode(Connect("a")), encode(Publish(topic, qos=1, packet_id=1)))
        assert isinstance(found[-1], PubAck)
        assert found[-1].reason_code.failed is not is_taken, topic
