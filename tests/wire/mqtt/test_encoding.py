"""What each version cannot carry is dropped, translated, cut to fit or refused."""

import pytest

from nearcast.wire.mqtt import (
    Auth,
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    EncodeError,
    Packet,
    PacketType,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Sender,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    Will,
    encode,
    encode_within,
    success,
)

SPOKEN = Properties(reason_string="why", user_properties=(("k", "v"),))
R = ReasonCode


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("packet", "plain"),
    [
        (ConnAck(False, R.SUCCESS, SPOKEN), ConnAck()),
        (ConnAck(False, R.BANNED, SPOKEN), ConnAck(False, R.NOT_AUTHORIZED)),
        (ConnAck(False, R.QUOTA_EXCEEDED), ConnAck(False, R.SERVER_UNAVAILABLE)),
        (SubAck(1, (R.NOT_AUTHORIZED,), SPOKEN), SubAck(1, (R.UNSPECIFIED_ERROR,))),
        (UnsubAck(1, (R.NO_SUBSCRIPTION_EXISTED,), SPOKEN), UnsubAck(1)),
        (PubAck(1, R.NO_MATCHING_SUBSCRIBERS, SPOKEN), PubAck(1)),
        (PubRel(1, R.PACKET_IDENTIFIER_NOT_FOUND), PubRel(1)),
        (Publish("a", b"x").with_(Properties(topic_alias=1)), Publish("a", b"x")),
    ],
)
def test_version_3_gets_what_it_knows(version: int, packet: Packet, plain: Packet) -> None:
    decoder = Decoder(version=version, sender=Sender.SERVER)
    assert decoder.feed(encode(packet, version)) == [plain]


@pytest.mark.parametrize("version", [3, 4])
def test_version_3_sends_what_it_knows(version: int) -> None:
    asked = Subscribe(1, (TopicFilter("a", 1, True, True, 2),), SPOKEN)
    gone = Disconnect(R.DISCONNECT_WITH_WILL_MESSAGE)
    sent = encode(asked, version) + encode(gone, version)
    assert Decoder(version=version).feed(sent) == [
        Subscribe(1, (TopicFilter("a", 1),)),
        Disconnect(),
    ]


def test_version_3_1_does_not_say_that_a_session_is_present() -> None:
    assert encode(ConnAck(True), 3) == b"\x20\x02\x00\x00"


@pytest.mark.parametrize("version", [4, 5])
def test_mqtt_3_2_2_6_a_refusal_never_says_that_a_session_is_present(version: int) -> None:
    assert encode(ConnAck(True, R.NOT_AUTHORIZED), version)[2] == 0


@pytest.mark.parametrize(
    ("packet", "version", "message"),
    [
        (Publish("a" * 65_536), 5, "the topic is 65536 bytes long"),
        (Publish("a\0"), 5, r"U\+0000"),
        (Publish("\ud800"), 5, "UTF-8"),
        (Publish("a/+"), 5, "wildcards"),
        (Publish(""), 4, "at least one character"),
        (Publish(""), 5, "topic alias"),
        (Publish("a", qos=1), 5, "packet identifier is 0"),
        (Publish("a", qos=3, packet_id=1), 5, "3 is no QoS"),
        (PubAck(0), 4, "packet identifier is 0"),
        (PubAck(65_536), 4, "0 to 65535"),
        (PubAck(1, properties=Properties(topic_alias=1)), 5, "PUBACK may not carry"),
        (Subscribe(1, ()), 5, "at least one topic filter"),
        (Subscribe(1, (TopicFilter("a", retain_handling=3),)), 5, "retain handling"),
        (
            Subscribe(1, (TopicFilter("a"),), Properties(subscription_identifiers=(1, 2))),
            5,
            "only once",
        ),
        (Unsubscribe(1, ()), 5, "at least one topic filter"),
        (Connect(version=6), 5, "no version of MQTT"),
        (Connect("a", 4, password=b"p"), 4, "without a user name"),
        (Connect(will=Will("a", qos=3)), 5, "no QoS"),
        (Connect(keep_alive=-1), 5, "keep alive is -1"),
        (Connect(properties=Properties(receive_maximum=0)), 5, "from 1 to 65535"),
        (Connect(properties=Properties(maximum_packet_size=2**32)), 5, "from 1 to"),
        (Auth(), 4, "no AUTH"),
        (Auth(R.RE_AUTHENTICATE), 5, "authentication method"),
    ],
)
def test_what_cannot_be_said_is_refused(packet: Packet, version: int, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode(packet, version)


@pytest.mark.parametrize(
    ("packet", "make"),
    [
        (PacketType.PUBACK, PubAck),
        (PacketType.PUBREC, PubRec),
        (PacketType.PUBREL, PubRel),
        (PacketType.PUBCOMP, PubComp),
    ],
)
def test_a_success_is_the_acknowledgement_with_nothing_to_say(
    packet: PacketType, make: type[PubAck]
) -> None:
    assert success(packet, 513) == encode(make(513), 5) == encode(make(513), 4)


@pytest.mark.parametrize(
    "packet",
    [
        ConnAck(False, R.NOT_AUTHORIZED, SPOKEN),
        PubAck(1, R.NOT_AUTHORIZED, SPOKEN),
        SubAck(1, (R.NOT_AUTHORIZED,), SPOKEN),
        UnsubAck(1, (R.NOT_AUTHORIZED,), SPOKEN),
        Disconnect(R.NOT_AUTHORIZED, SPOKEN),
    ],
    ids=["3.2.2-19", "3.4.2-2", "3.9.2-1", "3.11.2-1", "3.14.2-3"],
)
def test_what_only_explains_is_left_out_where_it_does_not_fit(packet: Packet) -> None:
    whole = encode(packet, 5)
    assert encode_within(packet, 5, len(whole)) == whole
    shorter = encode_within(packet, 5, len(whole) - 1)
    assert shorter is not None
    assert b"why" in shorter
    assert b"\x26" not in shorter
    shortest = encode_within(packet, 5, len(shorter) - 1)
    assert shortest is not None
    assert b"why" not in shortest
    assert encode_within(packet, 5, 2) is None


def test_a_message_is_never_shortened() -> None:
    packet = Publish("a", b"x").with_(Properties(user_properties=(("k", "v"),)))
    assert encode_within(packet, 5, len(encode(packet, 5)) - 1) is None
