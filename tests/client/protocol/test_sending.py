"""What a client sends and sends again, and what it makes of the answers."""

import pytest
from msgspec.structs import replace

from nearcast.client.api.options import ClientOptions
from nearcast.client.errors import OptionsError, QueueFullError, RejectedError
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import (
    Acknowledged,
    Resubscribed,
    SubscribeAcknowledged,
    UnsubscribeAcknowledged,
)
from nearcast.core.model.errors import ModelError
from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    ConnAck,
    Connect,
    EncodeError,
    Properties,
    PubAck,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Subscribe,
    TopicFilter,
    encode,
)
from tests.client.protocol.pair import KEPT, Pair


def test_what_is_published_before_there_is_a_connection_goes_out_after_it() -> None:
    pair = Pair()
    tokens = [pair.publish(bytes([65 + n]), n) for n in range(3)]
    pair.link.connect()
    pair.link.settle()
    assert [packet.payload for packet in pair.server.got] == [b"A", b"B", b"C"]
    assert pair.link.happened[1:] == [Acknowledged(t, ReasonCode.SUCCESS) for t in tokens[1:]]


def test_more_than_may_wait_is_refused_and_the_rest_is_kept() -> None:
    pair = Pair(replace(KEPT, queued_messages=2))
    pair.publish()
    pair.publish()
    with pytest.raises(QueueFullError, match="2 messages"):
        pair.publish()
    pair.connect()
    assert len(pair.server.got) == 2
    pair.publish()
    pair.link.settle()
    assert len(pair.server.got) == 3


def test_bytes_that_nobody_takes_count_as_waiting() -> None:
    pair = Pair(replace(KEPT, queued_bytes=100)).connect()
    for _ in range(100 // len(encode(Publish("a", b"x")))):
        pair.publish(qos=0)
    with pytest.raises(QueueFullError, match="over the limit of 100"):
        pair.publish(qos=0)
    pair.client.take()
    pair.publish(qos=0)


def test_unacknowledged_messages_go_out_again_as_they_were_with_dup() -> None:
    pair = Pair().connect()
    pair.server.answers = False
    pair.publish(b"1", 1)
    pair.publish(b"2", 2)
    first = pair.told()
    pair.server.answers = True
    pair.link.cut()
    pair.link.connect()
    again = [packet for packet in pair.told() if isinstance(packet, Publish)]
    assert again == [replace(packet, dup=True) for packet in first]


def test_a_released_message_is_only_released_again() -> None:
    pair = Pair().connect()
    pair.server.answers = False
    token = pair.publish(b"1", 2)
    sent = pair.told()[0]
    assert isinstance(sent, Publish)
    pair.hear(PubRec(sent.packet_id, ReasonCode.NO_MATCHING_SUBSCRIBERS))
    assert pair.told() == [PubRel(sent.packet_id)]
    pair.server.answers = True
    pair.link.cut()
    pair.link.connect()
    assert pair.told()[1:] == [PubRel(sent.packet_id)]
    assert pair.link.happened[-1] == Acknowledged(token, ReasonCode.NO_MATCHING_SUBSCRIBERS)


def test_a_smaller_receive_maximum_holds_for_what_is_sent_again() -> None:
    pair = Pair().connect()
    pair.server.answers = False
    for number in range(5):
        pair.publish(bytes([number]))
    pair.told()
    pair.server.answers = True
    pair.server.receive_maximum = 1
    pair.server.connack = Properties(receive_maximum=1)
    pair.reconnect()
    assert [packet.payload for packet in pair.server.got] == [bytes([n]) for n in range(5)]


def test_what_the_server_does_not_take_is_refused_at_once() -> None:
    pair = Pair()
    pair.server.connack = Properties(maximum_packet_size=100, maximum_qos=1, retain_available=False)
    pair.connect()
    for payload, qos, retain, reason in (
        (b"x" * 100, 0, False, ReasonCode.PACKET_TOO_LARGE),
        (b"x", 2, False, ReasonCode.QOS_NOT_SUPPORTED),
        (b"x", 1, True, ReasonCode.RETAIN_NOT_SUPPORTED),
    ):
        with pytest.raises(RejectedError) as raised:
            pair.publish(payload, qos, retain)
        assert raised.value.reason_code is reason
    pair.publish()
    assert len(pair.told()) == 1


def test_what_waited_for_a_server_that_does_not_take_it_is_reported() -> None:
    pair = Pair()
    large, small = pair.publish(b"x" * 100), pair.publish()
    pair.server.connack = Properties(maximum_packet_size=100)
    pair.connect()
    reports = [event for event in pair.link.happened if isinstance(event, Acknowledged)]
    assert [(r.token, r.reason_code) for r in reports] == [
        (large, ReasonCode.PACKET_TOO_LARGE),
        (small, ReasonCode.SUCCESS),
    ]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_sent_message_that_became_too_large_is_reported_and_overtaken(qos: int) -> None:
    pair = Pair().connect()
    pair.server.answers = False
    token = pair.publish(b"x" * 100, qos)
    pair.told()
    pair.server.answers = True
    pair.server.connack = Properties(maximum_packet_size=100)
    pair.publish(b"y", qos)
    pair.reconnect()
    reports = [event for event in pair.link.happened if isinstance(event, Acknowledged)]
    assert (reports[0].token, reports[0].reason_code) == (token, ReasonCode.PACKET_TOO_LARGE)
    assert reports[1].reason_code is ReasonCode.SUCCESS
    assert [packet.payload for packet in pair.server.got] == [b"y"]


@pytest.mark.parametrize(("qos", "answer"), [(1, PubAck), (2, PubRec)])
def test_a_message_that_the_server_refuses_is_reported_with_its_words(
    qos: int, answer: type[PubAck] | type[PubRec]
) -> None:
    pair = Pair().connect()
    pair.server.answers = False
    token = pair.publish(qos=qos)
    sent = pair.told()[0]
    assert isinstance(sent, Publish)
    words = Properties(reason_string="no such area")
    code = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    assert pair.hear(answer(sent.packet_id, code, words)) == [
        Acknowledged(token, code, "no such area")
    ]
    assert pair.client.statistics().in_flight == 0


def test_subscriptions_are_said_again_when_the_session_is_forgotten() -> None:
    pair = Pair().connect()
    where = Properties(user_properties=(("nc-where", "speed > 3"),))
    first = pair.client.subscribe([TopicFilter("a/#", 1), TopicFilter("b", 2)], where, 0.0)
    second = pair.client.subscribe([TopicFilter("c", no_local=True)], NO_PROPERTIES, 0.0)
    third = pair.client.unsubscribe(["b"], NO_PROPERTIES, 0.0)
    pair.link.settle()
    assert pair.link.happened[1:] == [
        SubscribeAcknowledged(first, (ReasonCode.GRANTED_QOS_1, ReasonCode.GRANTED_QOS_2)),
        SubscribeAcknowledged(second, (ReasonCode.SUCCESS,)),
        UnsubscribeAcknowledged(third, (ReasonCode.SUCCESS,)),
    ]
    pair.link.happened.clear()
    pair.link.cut()
    pair.server.forget()
    pair.server.seen.clear()
    pair.link.connect()
    said = pair.told()[1:]
    assert [(p.filters, p.properties) for p in said if isinstance(p, Subscribe)] == [
        ((TopicFilter("a/#", 1),), where),
        ((TopicFilter("c", no_local=True),), NO_PROPERTIES),
    ]
    assert pair.link.happened[1:] == [
        Resubscribed(("a/#",), (ReasonCode.GRANTED_QOS_1,)),
        Resubscribed(("c",), (ReasonCode.SUCCESS,)),
    ]


def test_subscriptions_are_not_said_again_when_the_session_is_remembered_or_nobody_asked() -> None:
    for options, forgotten in ((KEPT, False), (replace(KEPT, resubscribe=False), True)):
        pair = Pair(options).connect()
        pair.client.subscribe([TopicFilter("a")], NO_PROPERTIES, 0.0)
        pair.link.settle()
        pair.link.cut()
        if forgotten:
            pair.server.forget()
        pair.server.seen.clear()
        pair.link.connect()
        assert [type(packet) for packet in pair.told()] == [Connect]


def test_a_renewal_that_the_transport_lost_is_made_on_the_next_one() -> None:
    pair = Pair().connect()
    pair.client.subscribe([TopicFilter("a")], NO_PROPERTIES, 0.0)
    pair.link.settle()
    pair.link.cut()
    pair.server.forget()
    pair.link.connect()
    while not pair.client.online:
        pair.link.carry(1, 1)
    pair.link.cut()
    pair.connect()
    assert pair.server.filters == {"a": 0}


def test_mqtt_3_1_sends_again_with_dup_since_it_cannot_know() -> None:
    pair = Pair(ClientOptions(client_id="c", version=3, clean_start=False))
    pair.connect()
    pair.client.subscribe([TopicFilter("a")], NO_PROPERTIES, 0.0)
    pair.link.settle()
    pair.server.answers = False
    pair.publish(b"1")
    pair.told()
    pair.link.cut()
    pair.client.connected_transport(0.0)
    pair.client.take()
    pair.client.receive(encode(ConnAck(), 3), 0.0)
    data = pair.client.take()
    assert encode(Publish("a", b"1", 1, dup=True, packet_id=2), 3) in data
    assert encode(Subscribe(3, (TopicFilter("a"),)), 3) in data


@pytest.mark.parametrize("topic", ["", "a/+", "#", "a\0"])
def test_a_topic_that_is_none_is_refused(topic: str) -> None:
    with pytest.raises(EncodeError):
        Pair().client.publish(topic, b"", 0, False, NO_PROPERTIES, 0.0)


def test_a_filter_that_is_none_is_refused() -> None:
    with pytest.raises(ModelError):
        Pair().client.subscribe([TopicFilter("a/#/b")], NO_PROPERTIES, 0.0)
    with pytest.raises(EncodeError):
        Pair().client.subscribe([], NO_PROPERTIES, 0.0)


def test_mqtt_3_refuses_what_it_cannot_carry() -> None:
    client = ClientProtocol(ClientOptions(client_id="c", version=4))
    with pytest.raises(EncodeError, match="use MQTT 5"):
        client.publish("a", b"", 0, False, Properties(content_type="x"), 0.0)
    with pytest.raises(OptionsError, match="session expiry"):
        ClientOptions(version=4, session_expiry_s=1)
