"""Chapter 1.5: texts and numbers on the wire."""

import pytest

from nearcast.wire.mqtt import Disconnect, Properties, Publish, ReasonCode, UnsubAck
from tests.support.clients.raw_client import RawClient, fresh
from tests.support.running_broker import RunningBroker


def refused(client: RawClient, text: str) -> ReasonCode:
    """Send bytes that end a connection, and return the reason that is given."""
    client.send_hex(text)
    last = client.end()[-1]
    assert isinstance(last, Disconnect)
    return last.reason_code


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param("30 06 0003 eda080 00", id="half of a surrogate pair in a topic"),
        pytest.param("30 05 0002 c080 00", id="a longer form than needed"),
        pytest.param("82 08 0001 00 0002 c328 00", id="a broken sequence in a filter"),
        pytest.param("30 0a 0001 61 06 03 0003 eda080", id="in a content type"),
    ],
)
def test_mqtt_1_5_4_1_text_that_is_not_utf_8_ends_the_connection(
    broker: RunningBroker, packet: str
) -> None:
    assert refused(broker.client(), packet) == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("packet", ["30 06 0003 610062 00", "82 07 0001 00 0001 00 00"])
def test_mqtt_1_5_4_2_text_with_a_nul_character_ends_the_connection(
    broker: RunningBroker, packet: str
) -> None:
    assert refused(broker.client(), packet) == ReasonCode.MALFORMED_PACKET


def test_mqtt_1_5_4_3_a_byte_order_mark_is_a_character_like_others(
    broker: RunningBroker,
) -> None:
    client, plain = broker.client(), fresh()
    marked = f"\ufeff{plain}"
    client.subscribe(marked)
    client.publish(plain, b"without")
    client.publish(marked, b"with")
    (message,) = client.rest()
    assert isinstance(message, Publish)
    assert (message.topic, message.payload) == (marked, b"with")


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param("c0 80 00", id="remaining length"),
        pytest.param("30 06 0001 61 80 00 78", id="property length"),
        pytest.param("82 0a 0001 03 0b 81 00 0001 61 00", id="subscription identifier"),
    ],
)
def test_mqtt_1_5_5_1_a_number_in_more_bytes_than_needed_ends_the_connection(
    broker: RunningBroker, packet: str
) -> None:
    assert refused(broker.client(), packet) == ReasonCode.MALFORMED_PACKET


def test_mqtt_1_5_5_1_what_the_server_sends_is_in_as_few_bytes_as_needed(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(topic)
    for size in (1, 127, 128, 16_383, 16_384):
        value = "v" * (size // 2)
        client.publish(topic, b"x" * size, properties=Properties(user_properties=(("k", value),)))
        # The decoder takes no longer form.
        assert len(client.message().payload) == size


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param("30 0b 0001 61 07 26 0001 ff 0001 76", id="name"),
        pytest.param("30 0b 0001 61 07 26 0001 6b 0001 00", id="value"),
    ],
)
def test_mqtt_1_5_7_1_both_texts_of_a_pair_are_checked(broker: RunningBroker, packet: str) -> None:
    assert refused(broker.client(), packet) == ReasonCode.MALFORMED_PACKET


def test_others_do_not_notice_that_a_connection_was_ended(broker: RunningBroker) -> None:
    good = broker.client()
    refused(broker.client(), "30 05 0002 c328 00")
    assert good.unsubscribe("nothing") == (ReasonCode.NO_SUBSCRIPTION_EXISTED,)
    good.send_hex("a2 06 0001 00 0001 61")
    assert good.expect(UnsubAck).packet_id == 1
