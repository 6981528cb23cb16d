"""Properties: the shortcut for user properties gives what the long way gives."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    PacketType,
    Properties,
    ProtocolError,
    Publish,
    ReasonCode,
    Sender,
    user_properties,
)
from nearcast.wire.mqtt.properties import TABLE, decode_properties
from nearcast.wire.mqtt.publish_properties import (
    only_short_user_properties,
    short_user_properties,
)

pairs = st.lists(
    st.tuples(
        st.text("abc\x01\x7fé", max_size=5), st.text("abcé", max_size=4) | st.just("x" * 300)
    ),
    max_size=4,
)


@given(pairs, st.data())
def test_the_shortcut_agrees_with_the_long_way(
    held: list[tuple[str, str]], data: st.DataObject
) -> None:
    raw = bytearray(user_properties(held))
    if raw and data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    read: Properties | None = None
    with suppress(ProtocolError):
        read = decode_properties(bytes(raw), PacketType.PUBLISH)
    short = short_user_properties(bytes(raw))
    assert (short is not None) == only_short_user_properties(bytes(raw))
    if short is not None:
        assert read == Properties(user_properties=tuple(short))


@given(pairs)
def test_user_properties_keep_their_order_and_duplicates(held: list[tuple[str, str]]) -> None:
    packet = Publish("a", raw_properties=user_properties(held))
    assert packet.validate() is True
    assert packet.properties.user_properties == tuple(held)


def test_user_properties_stand_anywhere_among_others() -> None:
    raw = user_properties([("k", "1")]) + b"\x01\x01" + user_properties([("é", ""), ("k", "1")])
    assert decode_properties(raw, PacketType.PUBLISH) == Properties(
        payload_format_indicator=1, user_properties=(("k", "1"), ("é", ""), ("k", "1"))
    )


def test_short_texts_take_the_shortcut() -> None:
    raw = user_properties([("nc-at", "53.3498,-6.2603"), ("k", "v")])
    assert only_short_user_properties(raw)
    assert short_user_properties(raw) == [("nc-at", "53.3498,-6.2603"), ("k", "v")]


def test_properties_are_read_once() -> None:
    packet = Publish("a").with_(Properties(content_type="text/plain"))
    assert packet.properties is packet.properties
    assert packet.validate() is False
    assert Publish("a").properties is NO_PROPERTIES


def test_reading_properties_does_not_change_what_a_packet_equals() -> None:
    one, other = (Publish("a").with_(Properties(content_type="x")) for _ in range(2))
    assert one.properties.content_type == "x"
    assert one == other
    assert hash(one) == hash(other)
    assert one != Publish("a")


def test_broken_properties_are_found_by_whoever_reads_them() -> None:
    packet = Publish("a", raw_properties=b"\x26\x00\x01k")
    with pytest.raises(ProtocolError, match="user properties"):
        packet.validate()
    with pytest.raises(ProtocolError, match="user properties"):
        _ = packet.properties


def test_a_server_may_send_subscription_identifiers() -> None:
    packet = Publish("a").with_(Properties(subscription_identifiers=(1, 2)))
    assert packet.validate(Sender.SERVER) is False
    with pytest.raises(ProtocolError, match="client may not"):
        packet.validate(Sender.CLIENT)


def test_the_table_has_every_property_and_every_field() -> None:
    assert len(TABLE) == 27
    assert {row.name for row in TABLE} == set(Properties.__struct_fields__)


def test_reason_codes_speak() -> None:
    assert ReasonCode.NOT_AUTHORIZED.text == "Not authorized"
    assert ReasonCode(0).text == "Success"
    assert ReasonCode.QOS_NOT_SUPPORTED.text == "QoS not supported"
    assert ReasonCode.GRANTED_QOS_2.text == "Granted QoS 2"
    assert next(code for code in ReasonCode if code.failed) == 0x80
    assert len(ReasonCode) == 43
