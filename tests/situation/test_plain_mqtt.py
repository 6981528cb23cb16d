"""A subscription without our properties is plain MQTT, byte for byte, whoever else there is."""

import pytest

from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    PacketType,
    Properties,
    Publish,
    TopicFilter,
    encode,
)
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import Talker, words
from tests.support.running_broker import RunningBroker

FORWARDED = Properties(
    payload_format_indicator=1,
    content_type="text/plain",
    response_topic="answers",
    correlation_data=b"\x00\x01",
    user_properties=(("b", "2"), ("a", "1"), ("b", "2"), ("", ""), ("x-nc-at", "nc-at")),
)
OURS = (("nc-at", "53.35,-6.26"), ("nc-id", "id"), ("nc-priority", "2"))


def mixed(subject: str) -> Properties:
    """What is forwarded, with words of ours between."""
    plain = FORWARDED.user_properties
    pairs = (OURS[0], *plain[:2], ("nc-id", fresh("id")), *plain[2:], OURS[2])
    return Properties(
        payload_format_indicator=FORWARDED.payload_format_indicator,
        content_type=FORWARDED.content_type,
        response_topic=FORWARDED.response_topic,
        correlation_data=FORWARDED.correlation_data,
        user_properties=pairs,
    )


@pytest.mark.parametrize("version", [MQTT_5, MQTT_3_1_1])
@pytest.mark.parametrize("crowded", [False, True], ids=["alone", "among others who ask for more"])
@pytest.mark.parametrize("situated", [False, True], ids=["plain event", "event with our words"])
def test_the_frames_are_those_of_any_broker(
    broker: RunningBroker, version: int, crowded: bool, situated: bool
) -> None:
    subject, payload = fresh("bytes"), b'{"speed": 50}'
    receiver, publisher = Talker(broker, version=version), Talker(broker)
    if crowded:
        other = Talker(broker)
        other.wants(subject, where="speed > 10")
        other.names("near", subject=f"{subject}/#", **{"from": "circle:me,500"})
        publisher.moves(53.35, -6.26)
    receiver.client.subscribe(subject, qos=0)
    before = receiver.client.raw

    publisher.sends(subject, payload, 1, False, mixed(subject) if situated else FORWARDED)

    receiver.gets()
    came = receiver.client.raw[len(before) :].split(b"\xd0\x00")[0]
    expected = Publish(subject, payload, 0).with_(FORWARDED)
    assert came == encode(expected, version)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_options_and_identifiers_are_those_of_any_broker(broker: RunningBroker, qos: int) -> None:
    subject = fresh("bytes")
    receiver, publisher = Talker(broker), Talker(broker)
    receiver.subscribes(
        TopicFilter(subject, qos, retain_as_published=True),
        properties=Properties(subscription_identifiers=(7,)),
    )
    before = receiver.client.raw

    publisher.sends(subject, b"kept", 2, True, mixed(subject))
    publisher.sends(subject, b"", 2, True)

    first, second = (receiver.client.message() for _ in range(2))
    packet_id = first.packet_id
    told = Properties(
        payload_format_indicator=1, content_type="text/plain", response_topic="answers",
        correlation_data=b"\x00\x01", subscription_identifiers=(7,),
        user_properties=FORWARDED.user_properties,
    )  # fmt: skip
    assert first.properties == told
    assert (first.payload, first.qos, first.retain) == (b"kept", qos, True)
    assert (second.payload, second.qos, second.retain) == (b"", qos, True)
    whole = encode(Publish(subject, b"kept", qos, True, packet_id=packet_id).with_(told), MQTT_5)
    assert len(receiver.client.raw[len(before) :].partition(b"kept")[0]) + 4 == len(whole)
    assert receiver.client.raw[len(before)] >> 4 == PacketType.PUBLISH


def test_only_those_who_ask_with_a_word_of_ours_are_told_more(broker: RunningBroker) -> None:
    subject = fresh("bytes")
    plain, asking, named, publisher = (Talker(broker) for _ in range(4))
    plain.subscribes(subject)
    asking.subscribes(subject, properties=words(meta="1"))
    named.names("mine", subject=subject)

    publisher.sends(subject, b"x", 1, False, Properties(user_properties=(("a", "1"),)))

    (bare,), (rich,), (called,) = plain.gets(), asking.gets(), named.gets()
    assert bare.properties.user_properties == (("a", "1"),)
    for message in (rich, called):
        names = [name for name, _ in message.properties.user_properties]
        assert names == ["nc-id", "nc-publisher", "nc-time", "nc-priority", "nc-subscription", "a"]


def test_a_subscription_is_plain_again_when_it_is_made_again_without_words(
    broker: RunningBroker,
) -> None:
    subject = fresh("bytes")
    receiver, publisher = Talker(broker), Talker(broker)
    receiver.wants(subject, where="speed > 50")
    receiver.subscribes(subject)

    publisher.says(subject, b'{"speed": 10}')

    (message,) = receiver.gets()
    assert message.properties.user_properties == ()


def test_targets_and_announcements_limit_plain_subscriptions_too(broker: RunningBroker) -> None:
    subject, other = fresh("bytes"), fresh("bytes")
    near, far, publisher = (Talker(broker) for _ in range(3))
    for receiver in (near, far):
        receiver.client.subscribe(subject, other, qos=1)
    near.moves(53.35, -6.26)
    far.moves(53.45, -6.26)
    publisher.moves(53.35, -6.26)

    publisher.says(subject, b"a target", to="circle:me,500")
    publisher.announces(other, "circle:me,500")
    publisher.sends(other, b"an announced area", 0)
    publisher.sends(other, b"again", 1)

    assert near.payloads() == [b"a target", b"an announced area", b"again"]
    assert far.payloads() == []
