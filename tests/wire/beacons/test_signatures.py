from dataclasses import dataclass
from random import Random

import pytest
from msgspec.structs import replace

from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.messages import Beacon, EventMessage, Message
from nearcast.wire.beacons.datagram_codec import DatagramCodec
from nearcast.wire.beacons.group_key import GroupKey, GroupKeyError, KeyRing
from nearcast.wire.beacons.signatures import (
    Member,
    MembersError,
    Signatures,
    SigningKey,
    author_of,
    member_line,
    read_members,
    read_signing_key,
    signed_bytes,
)
from tests.support.plain.proximity_messages import random_message

KEY, OTHER = GroupKey(b"k" * 32), GroupKey(b"o" * 32)
P, Q, GATE = SigningKey(b"p" * 32), SigningKey(b"q" * 32), SigningKey(b"g" * 32)
MEMBERS = {"p": Member(P.public), "q": Member(Q.public), "gate": Member(GATE.public, True)}
EVENT = EventMessage(
    7, "p", 1, 2, 3, "siren", 1e9, (53.35, -6.26), 1.0, True, b'{"lane":1}'
)  # fmt: skip
BEACON = Beacon(
    "p", 1, 5, 1e9, event_type("siren"), "circle:me,500", (53.35, -6.26), (53.35, -6.26), 1.0, 0.0,
    2.0, False,
)  # fmt: skip


@dataclass
class Crew:
    """A node of the group, as far as it reads and writes datagrams."""

    node: str
    key: SigningKey | None = None

    def __post_init__(self) -> None:
        ring = KeyRing([KEY], self.node.encode())
        signatures = Signatures(self.node, self.key, MEMBERS, ring.node_of)
        self.codec = DatagramCodec(ring, 1_400, signatures)

    def hears(self, message: Message, of: "Crew") -> Message | None:
        found = [self.codec.decode(each, 0.0) for each in of.codec.encode(message)]
        return found[-1]


def unsigned(message: Message) -> Message:
    if isinstance(message, EventMessage) and message.beacon is not None:
        message = replace(message, beacon=replace(message.beacon, signature=b""))
    return replace(message, signature=b"")


@pytest.mark.parametrize("seed", range(30))
def test_what_a_member_says_is_taken_and_the_same_in_anothers_name_is_not(seed: int) -> None:
    message = random_message(Random(seed))
    honest, forger, reader = Crew("p", P), Crew("q", Q), Crew("q")
    said = reader.hears(message, honest)
    assert said is not None
    assert unsigned(said) == message
    assert author_of(said) == "p"
    assert reader.hears(message, forger) is None
    assert reader.hears(message, Crew("stranger", GATE)) is None
    assert reader.codec.counts.forged == 2


def test_whole_numbers_that_programs_give_for_others_are_signed_as_they_are_read() -> None:
    whole = event_type("siren", {"lane": int}, validity=120, deadline=5)
    beacon = replace(BEACON, type=whole, time=1_000_000_000, naval=(53, -6), period_s=2)
    assert Crew("q").hears(beacon, Crew("p", P)) is not None


def test_any_change_of_what_was_signed_is_noticed() -> None:
    honest, reader, relay = Crew("p", P), Crew("q"), Crew("r")
    said = reader.hears(EVENT, honest)
    assert isinstance(said, EventMessage)
    for changed in (
        replace(said, payload=b'{"lane":2}'), replace(said, time=1e9 + 1), replace(said, number=9),
        replace(said, naval=(53.0, -6.0)), replace(said, subject="all/clear"),
        replace(said, event_id="x"), replace(said, signature=bytes(64)),
    ):  # fmt: skip
        assert reader.hears(changed, relay) is None
    assert reader.codec.counts.forged == 7


def test_members_pass_on_what_others_signed_in_another_group_and_with_their_beacon() -> None:
    honest, reader, relay = Crew("p", P), Crew("q"), Crew("r")
    said, beacon = reader.hears(EVENT, honest), reader.hears(BEACON, honest)
    assert isinstance(said, EventMessage)
    assert isinstance(beacon, Beacon)
    again = replace(said, group=9, hops=False, beacon=beacon)
    assert reader.hears(again, relay) == again
    forged = replace(again, beacon=replace(beacon, area="circle:me,9"))
    assert reader.hears(forged, relay) is None


def test_only_a_gateway_speaks_for_nodes_elsewhere() -> None:
    reader = Crew("q")
    named = replace(EVENT, publisher="office", event_id="e")
    assert reader.hears(named, Crew("p", P)) is None
    by_gateway = replace(named, producer="gate")
    assert reader.hears(by_gateway, Crew("gate", GATE)) is not None


def test_a_pseudonym_is_signed_by_the_node_that_it_stands_for() -> None:
    alias = KEY.pseudonym("p", b"salt-1")
    reader, event = Crew("q"), replace(EVENT, producer=alias)
    assert reader.hears(event, Crew("p", P)) is not None
    assert reader.hears(event, Crew("q", Q)) is None


def test_only_members_tell_whose_a_pseudonym_is() -> None:
    ring = KeyRing([OTHER, KEY], b"run")
    one, two = KEY.pseudonym("ambulance-7", b"salt-1"), KEY.pseudonym("ambulance-7", b"salt-2")
    assert one != two
    assert "ambulance" not in one
    assert ring.node_of(one) == ring.node_of(two) == "ambulance-7"
    assert KeyRing([OTHER], b"run").node_of(one) == one
    assert ring.node_of("ambulance-7") == "ambulance-7"
    for wrong in ("anon-", "anon-x", "anon-é", one[:-2], f"{one}a", "anon-" + "a" * 300):
        assert ring.node_of(wrong) == wrong
    with pytest.raises(GroupKeyError, match="at most 120 bytes"):
        KEY.pseudonym("é" * 61, b"salt-1")
    assert len(KEY.pseudonym("x" * 120, b"salt-1")) <= 256


def test_after_a_change_of_name_datagrams_have_nothing_in_common() -> None:
    ring = KeyRing([KEY], b"run--1")
    before = {ring.seal(b"x")[:10] for _ in range(3)}
    ring.renew(b"run--2")
    assert len(before) == 1
    assert ring.seal(b"x")[:10] not in before


def test_what_is_remembered_as_verified_is_bounded() -> None:
    signatures = Signatures("q", None, MEMBERS)
    for number in range(1, 5_000):
        message = replace(EVENT, number=number)
        assert signatures.are_valid(replace(message, signature=P.sign(signed_bytes(message))))
    assert len(signatures._verified) <= 4_096


def test_members_are_read_from_their_lines_or_refused() -> None:
    lines = [member_line(node, member) for node, member in MEMBERS.items()]
    assert read_members("# our crew\n\n" + "\n".join(lines)) == MEMBERS
    for text, says in (
        ("p", "line 1 of the members is 'p'; it is: NODE PUBLIC-KEY"),
        (f"\n{lines[0]} boss", "line 2"),
        (f"p {'0' * 63}", "line 1"),
        (f"{lines[0]}\n{lines[0]}", "line 2 of the members is a second one of 'p'"),
    ):
        with pytest.raises(MembersError, match=says):
            read_members(text)
    assert read_signing_key((b"p" * 32).hex()).public == P.public
    for text in ("", "xyz", "00" * 31):
        with pytest.raises(MembersError):
            read_signing_key(text)
