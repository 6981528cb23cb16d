"""What a client makes of what a server says, also of what it should not say."""

import pytest
from msgspec.structs import replace

from nearcast.client.protocol.protocol_events import (
    MessageReceived,
    ProtocolBroken,
)
from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    ConnAck,
    Disconnect,
    Packet,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    TopicFilter,
    encode,
    topic_alias,
)
from tests.client.protocol.pair import KEPT, Pair


def test_a_topic_alias_stands_for_its_topic_until_the_transport_ends() -> None:
    pair = Pair().connect()
    alias = topic_alias(7)
    found = pair.hear(
        Publish("a/b", b"1", raw_properties=alias), Publish("", b"2", raw_properties=alias)
    )
    assert found == [MessageReceived(Publish("a/b", b"1")), MessageReceived(Publish("a/b", b"2"))]
    pair.reconnect()
    (broken,) = pair.hear(Publish("", b"3", raw_properties=alias))
    assert isinstance(broken, ProtocolBroken)


ALIAS_65 = Publish("a", raw_properties=topic_alias(65))
BREACHES: dict[str, tuple[ReasonCode, list[Packet]]] = {
    "a second CONNACK": (ReasonCode.PROTOCOL_ERROR, [ConnAck()]),
    "a topic alias beyond the maximum": (ReasonCode.TOPIC_ALIAS_INVALID, [ALIAS_65]),
    "a PUBCOMP before its PUBREC": (ReasonCode.PROTOCOL_ERROR, [PubComp(2)]),
    "a PUBACK for QoS 2": (ReasonCode.PROTOCOL_ERROR, [PubAck(2)]),
    "a PUBREC for QoS 1": (ReasonCode.PROTOCOL_ERROR, [PubRec(1)]),
    "a SUBACK with too many codes": (
        ReasonCode.PROTOCOL_ERROR,
        [SubAck(3, (ReasonCode.SUCCESS, ReasonCode.SUCCESS))],
    ),
    "more than the Receive Maximum": (
        ReasonCode.RECEIVE_MAXIMUM_EXCEEDED,
        [Publish("a", b"", 2, packet_id=1), Publish("a", b"", 2, packet_id=2)],
    ),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_server_that_breaks_the_rules_is_told_so_and_left(breach: str) -> None:
    reason, packets = BREACHES[breach]
    pair = Pair(replace(KEPT, receive_maximum=1)).connect()
    pair.server.answers = False
    pair.publish(qos=1)
    pair.publish(qos=2)
    pair.client.subscribe([TopicFilter("a")], NO_PROPERTIES, 0.0)
    pair.link.settle()
    broken = pair.hear(*packets)[-1]
    assert isinstance(broken, ProtocolBroken)
    assert broken.reason_code is reason
    goodbye = pair.server.seen[-1]
    assert isinstance(goodbye, Disconnect)
    assert goodbye.reason_code is reason
    assert not pair.link.up


def test_what_came_before_broken_bytes_still_counts() -> None:
    pair = Pair().connect()
    data = encode(Publish("a", b"1")) + b"\x00\x00"
    message, broken = pair.client.receive(data, 0.0)
    assert message == MessageReceived(Publish("a", b"1"))
    assert isinstance(broken, ProtocolBroken)
    assert pair.client.should_close


@pytest.mark.parametrize("known", [False, True])
def test_a_pubrel_is_always_answered(known: bool) -> None:
    pair = Pair().connect()
    pair.server.answers = False
    if known:
        pair.hear(Publish("a", b"", 2, packet_id=9))
        pair.told()
    pair.hear(PubRel(9))
    code = ReasonCode.SUCCESS if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
    assert pair.told() == [PubComp(9, code)]


def test_answers_to_nothing_are_ignored_but_for_a_pubrec() -> None:
    pair = Pair().connect()
    pair.server.answers = False
    assert pair.hear(PubAck(9), PubComp(9), SubAck(9, (ReasonCode.SUCCESS,)), PingResp()) == []
    assert pair.told() == []
    assert pair.hear(PubRec(9)) == []
    assert pair.told() == [PubRel(9, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)]
