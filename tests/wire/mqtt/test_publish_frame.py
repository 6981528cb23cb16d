"""One message for many: the same bytes as if encoded for each, and the same object if it can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    Decoder,
    EncodeError,
    Properties,
    Publish,
    PublishFrame,
    Sender,
    encode,
    message_expiry,
    stripped,
    subscription_identifiers,
    topic_alias,
    user_properties,
)
from tests.wire.mqtt.strategies import publishes, qualities, versions


@given(st.data())
def test_a_frame_is_what_the_encoder_writes(data: st.DataObject) -> None:
    version = data.draw(versions)
    packet = data.draw(publishes(version))
    frame = PublishFrame(packet.topic, packet.payload, packet.raw_properties)
    sent = frame.encode(
        version,
        qos=packet.qos,
        retain=packet.retain,
        dup=packet.dup,
        packet_id=packet.packet_id,
    )
    assert sent == encode(packet, version)
    assert frame.size(version, packet.qos) == len(sent)


@given(st.data(), st.lists(st.integers(1, 268_435_455), max_size=3), qualities)
def test_additions_reach_version_5_only(data: st.DataObject, known: list[int], qos: int) -> None:
    version = data.draw(versions)
    packet = data.draw(publishes(version))
    additions = subscription_identifiers(known) + user_properties([("nc-id", "7")])
    frame = PublishFrame(packet.topic, packet.payload, packet.raw_properties)
    sent = frame.encode(version, qos=qos, packet_id=3, additions=additions)
    (received,) = Decoder(version=version, sender=Sender.SERVER).feed(sent)
    assert isinstance(received, Publish)
    assert frame.size(version, qos, additions) == len(sent)
    assert (received.topic, received.payload) == (packet.topic, packet.payload)
    if version != 5:
        assert received.properties is NO_PROPERTIES
        return
    assert received.properties.subscription_identifiers == tuple(known)
    own = packet.properties.user_properties
    assert received.properties.user_properties == (("nc-id", "7"), *own)


def test_recipients_of_qos_0_share_one_object_per_version() -> None:
    frame = PublishFrame("a/b", b"payload", user_properties([("k", "v")]))
    assert frame.encode(5) is frame.encode(5)
    assert frame.encode(4) is frame.encode(3)
    assert frame.encode(4) != frame.encode(5)
    assert frame.encode(5, retain=True) is frame.encode(5, retain=True)
    known = subscription_identifiers([7])
    assert frame.encode(5, additions=known) is frame.encode(5, additions=bytes(known))


def test_recipients_of_qos_1_share_all_but_the_packet_identifier() -> None:
    frame = PublishFrame("a/b", b"payload")
    one, other = (frame.acknowledged(5, 1, packet_id) for packet_id in (1, 2))
    assert one[0] is other[0]
    assert one[2] is other[2]
    assert b"".join(one) == encode(Publish("a/b", b"payload", 1, packet_id=1))


def test_mqtt_3_3_1_2_a_frame_of_qos_0_is_never_a_duplicate() -> None:
    assert PublishFrame("a").encode(5, dup=True)[0] == 0x30


def test_what_is_kept_for_sharing_is_bounded() -> None:
    frame = PublishFrame("a", b"x")
    for value in range(1, 300):
        sent = frame.encode(5, additions=subscription_identifiers([value]))
        frame.acknowledged(5, 1, 1, additions=subscription_identifiers([value]))
        assert len(sent) == frame.size(5, additions=subscription_identifiers([value]))
    assert len(frame._whole) == len(frame._parts) == 64


def test_a_topic_alias_replaces_the_topic() -> None:
    frame = PublishFrame("a/long/topic", b"x")
    sent = frame.encode(5, additions=topic_alias(3), alias_only=True)
    assert sent == bytes.fromhex("30 07 0000 03 23 0003 78")
    assert len(sent) == frame.size(5, additions=topic_alias(3), alias_only=True)
    (received,) = Decoder(version=5, sender=Sender.SERVER).feed(sent)
    assert isinstance(received, Publish)
    assert received.validate(Sender.SERVER) is False
    assert received.properties == Properties(topic_alias=3)
    with pytest.raises(EncodeError, match="topic aliases"):
        frame.encode(4, alias_only=True)


def test_properties_are_passed_on_without_those_of_one_hop_and_ours() -> None:
    packet = Publish("a").with_(
        Properties(
            message_expiry_interval=60,
            topic_alias=4,
            content_type="text/plain",
            user_properties=(("k", "1"), ("nc-at", "1,2"), ("k", "2"), ("ÿ", "nc-")),
        )
    )
    left = stripped(packet.raw_properties, frozenset((0x02, 0x23)), "nc-")
    assert Publish("a", raw_properties=left + message_expiry(40)).properties == Properties(
        message_expiry_interval=40,
        content_type="text/plain",
        user_properties=(("k", "1"), ("k", "2"), ("ÿ", "nc-")),
    )
    assert stripped(packet.raw_properties, frozenset()) == packet.raw_properties
