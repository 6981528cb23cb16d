"""What the specification demands of those who read packets, by the numbers of its statements.

Numbers are those of MQTT 5 unless a name says 3.1.1. A case is a packet as hexadecimal bytes,
the reason code to close with, and a part of the message. Statements about sessions, delivery
and matching are the broker's.
"""

import pytest

from nearcast.wire.mqtt import Decoder, ProtocolError, Publish, ReasonCode, Sender

MALFORMED = ReasonCode.MALFORMED_PACKET
FORBIDDEN = ReasonCode.PROTOCOL_ERROR
VERSION = ReasonCode.UNSUPPORTED_PROTOCOL_VERSION
IDENTIFIER = ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
TOO_LARGE = ReasonCode.PACKET_TOO_LARGE
ALIAS = ReasonCode.TOPIC_ALIAS_INVALID

Case = tuple[str, str, ReasonCode, str]
MQTT = "0004 4d515454"

# From a client, version 5, after its CONNECT.
CLIENT_5: list[Case] = [
    ("1.5.4-1 text is well-formed UTF-8", "30 05 0002 c328 00", MALFORMED, "UTF-8"),
    ("1.5.4-1 no surrogates", "30 06 0003 eda080 00", MALFORMED, "UTF-8"),
    ("1.5.4-1 no overlong forms", "30 05 0002 c080 00", MALFORMED, "UTF-8"),
    ("1.5.4-1 in filters", "82 09 0001 00 0003 eda080 00", MALFORMED, "UTF-8"),
    ("1.5.4-2 no U+0000", "30 06 0003 610062 00", MALFORMED, r"U\+0000"),
    ("1.5.4-2 in filters", "82 07 0001 00 0001 00 00", MALFORMED, r"U\+0000"),
    ("1.5.5-1 remaining length in its shortest form", "c0 80 00", MALFORMED, "more bytes"),
    ("1.5.5-1 and in three bytes", "30 84 80 00 0001 61 00", MALFORMED, "more bytes"),
    ("1.5.5-1 property length", "30 05 0001 61 80 00", MALFORMED, "more bytes"),
    ("1.5.5-1 at most four bytes", "30 ff ff ff ff 01", MALFORMED, "4 bytes"),
    (
        "1.5.5-1 property length of five bytes",
        "30 08 0001 61 ff ff ff ff 01",
        MALFORMED,
        "4 bytes",
    ),
    (
        "1.5.7-1 both texts of a pair: key",
        "30 0b 0001 61 07 26 0001 ff 0001 76",
        MALFORMED,
        "UTF-8",
    ),
    ("1.5.7-1 both texts of a pair: value", "30 0b 0001 61 07 26 0001 6b 0001 00", MALFORMED, "U"),
    ("2.1.2 type 0 is reserved", "00 00", MALFORMED, "type 0"),
    ("2.1.3-1 flags of PUBACK", "41 02 0001", MALFORMED, "flags"),
    ("2.1.3-1 flags of PINGREQ", "c1 00", MALFORMED, "flags"),
    ("2.2.1-3 packet identifier of PUBLISH", "32 06 0001 61 0000 00", FORBIDDEN, "is 0"),
    ("2.2.1-3 packet identifier of SUBSCRIBE", "82 07 0000 00 0001 61 00", FORBIDDEN, "is 0"),
    ("2.2.1-3 packet identifier of UNSUBSCRIBE", "a2 06 0000 00 0001 61", FORBIDDEN, "is 0"),
    ("2.2.1-5 packet identifier of PUBACK", "40 02 0000", FORBIDDEN, "is 0"),
    ("2.2.1-5 packet identifier of a longer PUBREC", "50 03 0000 10", FORBIDDEN, "is 0"),
    ("2.2.2-1 no properties are said by length 0", "30 03 0001 61", MALFORMED, "ends"),
    ("2.2.2-1 in SUBSCRIBE", "82 02 0001", MALFORMED, "property length"),
    ("2.2.2.2 unknown property", "30 06 0001 61 02 7f 00", MALFORMED, "no property 0x7F"),
    ("2.2.2.2 property of another packet", "30 07 0001 61 03 21 0001", MALFORMED, "may not carry"),
    ("2.2.2.2 property cut off", "30 06 0001 61 02 02 00", MALFORMED, "expected"),
    ("2.2.2.2 properties longer than the packet", "30 05 0001 61 05 01", MALFORMED, "ends"),
    ("3.1.0-2 a second CONNECT", f"10 0d {MQTT} 05 02 0000 00 0000", FORBIDDEN, "already"),
    ("3.3.1-2 DUP with QoS 0", "38 04 0001 61 00", MALFORMED, "DUP"),
    ("3.3.1-4 both QoS bits", "36 06 0001 61 0001 00", MALFORMED, "QoS"),
    ("3.3.2-1 the topic name is there", "30 01 00", MALFORMED, "ends"),
    ("3.3.2-2 no + in a topic name", "30 06 0003 612f2b 00", MALFORMED, "wildcards"),
    ("3.3.2-2 no # in a topic name", "30 06 0003 612f23 00", MALFORMED, "wildcards"),
    ("3.3.2.1 empty topic without alias", "30 03 0000 00", FORBIDDEN, "empty"),
    (
        "3.3.2.1 empty topic with other properties",
        "30 0b 0000 08 26 0001 6b 0002 7676",
        FORBIDDEN,
        "alias",
    ),
    ("3.3.2.3.2 payload format is 0 or 1", "30 06 0001 61 02 01 02", FORBIDDEN, "from 0 to 1"),
    ("3.3.2.3.2 only once", "30 08 0001 61 04 01 00 01 00", FORBIDDEN, "only once"),
    ("3.3.2-8 topic alias 0", "30 07 0001 61 03 23 0000", ALIAS, "from 1"),
    ("3.3.2-13 response topic is UTF-8", "30 08 0001 61 04 08 0001 ff", MALFORMED, "UTF-8"),
    ("3.3.2-14 no wildcard in it", "30 08 0001 61 04 08 0001 23", FORBIDDEN, "wildcards"),
    ("3.3.2-19 content type is UTF-8", "30 08 0001 61 04 03 0001 ff", MALFORMED, "UTF-8"),
    ("3.3.4-6 no subscription identifier", "30 06 0001 61 02 0b 01", FORBIDDEN, "client"),
    ("3.4.2-1 reason codes of PUBACK", "40 03 0001 01", FORBIDDEN, "0x01"),
    ("3.5.2-1 reason codes of PUBREC", "50 03 0001 92", FORBIDDEN, "0x92"),
    ("3.6.1-1 flags of PUBREL", "60 02 0001", MALFORMED, "0010"),
    ("3.6.2-1 reason codes of PUBREL", "62 03 0001 10", FORBIDDEN, "0x10"),
    ("3.7.2-1 reason codes of PUBCOMP", "70 03 0001 10", FORBIDDEN, "0x10"),
    ("3.8.1-1 flags of SUBSCRIBE", "80 07 0001 00 0001 61 00", MALFORMED, "0010"),
    ("3.8.2.1.2 subscription identifier 0", "82 09 0001 02 0b00 0001 61 00", FORBIDDEN, "from 1"),
    ("3.8.2.1.2 only once", "82 0b 0001 04 0b01 0b02 0001 61 00", FORBIDDEN, "only once"),
    ("3.8.3-1 filters are UTF-8", "82 07 0001 00 0001 ff 00", MALFORMED, "UTF-8"),
    ("3.8.3-2 at least one filter", "82 03 0001 00", FORBIDDEN, "no topic filter"),
    ("3.8.3-2 with its options", "82 06 0001 00 0001 61", MALFORMED, "options"),
    ("3.8.3.1 QoS 3", "82 07 0001 00 0001 61 03", FORBIDDEN, "QoS"),
    ("3.8.3.1 retain handling 3", "82 07 0001 00 0001 61 30", FORBIDDEN, "retain handling"),
    ("3.8.3-4 no local, shared", "82 0f 0001 00 0009 2473686172652f672f 04", FORBIDDEN, "shared"),
    ("3.8.3-5 reserved bits", "82 07 0001 00 0001 61 40", MALFORMED, "reserved"),
    ("3.10.1-1 flags of UNSUBSCRIBE", "a0 06 0001 00 0001 61", MALFORMED, "0010"),
    ("3.10.3-1 filters are UTF-8", "a2 06 0001 00 0001 ff", MALFORMED, "UTF-8"),
    ("3.10.3-2 at least one filter", "a2 03 0001 00", FORBIDDEN, "no topic filter"),
    ("3.12 PINGREQ is empty", "c0 01 00", MALFORMED, "left"),
    ("3.14.1-1 flags of DISCONNECT", "e2 00", MALFORMED, "flags"),
    ("3.14.2-1 reason codes of DISCONNECT", "e0 01 01", FORBIDDEN, "0x01"),
    ("3.15.1-1 flags of AUTH", "f1 00", MALFORMED, "flags"),
    ("3.15.2-1 reason codes of AUTH", "f0 08 01 06 15 0003 616263", FORBIDDEN, "0x01"),
    ("3.15.2.2.2 AUTH names a method", "f0 02 18 00", FORBIDDEN, "method"),
    ("4.7.3-1 a filter is not empty", "82 06 0001 00 0000 00", MALFORMED, "at least one"),
    ("4.13 CONNACK from a client", "20 03 00 00 00", FORBIDDEN, "client may not"),
    ("4.13 SUBACK from a client", "90 04 0001 00 00", FORBIDDEN, "client may not"),
    ("4.13 bytes after the last field", "62 06 0001 00 00 ffff", MALFORMED, "left"),
]

# From a client, version 3.1.1, after its CONNECT.
CLIENT_4: list[Case] = [
    ("3.1.1 1.5.3-1 UTF-8", "30 04 0002 c328", MALFORMED, "UTF-8"),
    ("3.1.1 1.5.3-2 U+0000", "30 03 0001 00", MALFORMED, r"U\+0000"),
    ("3.1.1 2.2.2-2 flags", "80 06 0001 0001 61 00", MALFORMED, "flags"),
    ("3.1.1 2.3.1-1 packet identifier", "32 05 0001 61 0000", FORBIDDEN, "is 0"),
    ("3.1.1 3.3.1-4 QoS 3", "36 05 0001 61 0001", MALFORMED, "QoS"),
    ("3.1.1 3.8.3-3 at least one filter", "82 02 0001", FORBIDDEN, "no topic filter"),
    ("3.1.1 3.8.3-4 reserved bits", "82 06 0001 0001 61 04", MALFORMED, "reserved"),
    ("3.1.1 3.8.3-4 QoS 3", "82 06 0001 0001 61 03", FORBIDDEN, "QoS"),
    ("3.1.1 3.10.3-2 at least one filter", "a2 02 0001", FORBIDDEN, "no topic filter"),
    ("3.1.1 3.14.1-1 flags of DISCONNECT", "e1 00", MALFORMED, "flags"),
    ("3.1.1 4.7.3-1 an empty topic", "30 02 0000", FORBIDDEN, "empty"),
    ("3.1.1 2.2.1 type 15 is reserved", "f0 00", MALFORMED, "type 15"),
    ("3.1.1 PUBACK has no reason code", "40 03 0001 00", MALFORMED, "left"),
]

# The first bytes of a connection.
FIRST: list[Case] = [
    ("3.1.0-1 the first packet is a CONNECT", "c0 00", FORBIDDEN, "CONNECT"),
    ("3.1.0-1 and no PUBLISH", "30 03 0001 61", FORBIDDEN, "CONNECT"),
    ("3.1.0-1 and no PUBACK", "40 02 0001", FORBIDDEN, "CONNECT"),
    ("2.1.3-1 flags of CONNECT", f"11 0d {MQTT} 05 02 0000 00 0000", MALFORMED, "flags"),
    ("1.5.5-1 its length", f"10 8d 00 {MQTT} 05 02 0000 00 0000", MALFORMED, "more bytes"),
    ("3.1.2-1 protocol name", "10 0d 0004 4d515455 05 02 0000 00 0000", VERSION, "MQTU"),
    ("3.1.2-2 protocol version", f"10 0d {MQTT} 06 02 0000 00 0000", VERSION, "6"),
    ("3.1.2-2 a bridge", f"10 0d {MQTT} 84 02 0000 00 0000", VERSION, "132"),
    ("3.1.2-2 name and version", "10 0f 0006 4d5149736470 04 02 0000 0001 61", VERSION, "MQIsdp"),
    ("3.1.2-3 reserved flag", f"10 0d {MQTT} 05 03 0000 00 0000", MALFORMED, "reserved"),
    ("3.1.2-9 will topic and payload", f"10 0d {MQTT} 05 06 0000 00 0000", MALFORMED, "WILL|left"),
    ("3.1.2-11 will QoS without will", f"10 0d {MQTT} 05 0a 0000 00 0000", MALFORMED, "will"),
    (
        "3.1.2-12 will QoS 3",
        f"10 13 {MQTT} 05 1e 0000 00 0000 00 0001 61 0000",
        MALFORMED,
        "3 is no QoS",
    ),
    ("3.1.2-13 will retain without will", f"10 0d {MQTT} 05 22 0000 00 0000", MALFORMED, "will"),
    ("3.1.2-16 user name without flag", f"10 0f {MQTT} 05 02 0000 00 0000 0000", MALFORMED, "left"),
    ("3.1.2-17 user name with flag", f"10 0d {MQTT} 05 82 0000 00 0000", MALFORMED, "user name"),
    ("3.1.2-19 password with flag", f"10 0d {MQTT} 05 42 0000 00 0000", MALFORMED, "password"),
    (
        "3.1.2.11.3 receive maximum 0",
        f"10 10 {MQTT} 05 02 0000 03 21 0000 0000",
        FORBIDDEN,
        "from 1",
    ),
    (
        "3.1.2.11.4 maximum packet size 0",
        f"10 12 {MQTT} 05 02 0000 05 27 00000000 0000",
        FORBIDDEN,
        "from 1",
    ),
    (
        "3.1.2.11.7 request problem information 2",
        f"10 0f {MQTT} 05 02 0000 02 17 02 0000",
        FORBIDDEN,
        "from 0 to 1",
    ),
    (
        "3.1.2.11.10 authentication data without method",
        f"10 10 {MQTT} 05 02 0000 03 16 0000 0000",
        FORBIDDEN,
        "method",
    ),
    (
        "3.1.2.11.2 session expiry twice",
        f"10 17 {MQTT} 05 02 0000 0a 11 00000001 11 00000001 0000",
        FORBIDDEN,
        "only once",
    ),
    ("3.1.3-3 the client identifier is there", f"10 0b {MQTT} 05 02 0000 00", MALFORMED, "client"),
    ("3.1.3-4 it is UTF-8", f"10 0e {MQTT} 05 02 0000 00 0001 ff", MALFORMED, "UTF-8"),
    (
        "3.1.3-11 the will topic is UTF-8",
        f"10 13 {MQTT} 05 06 0000 00 0000 00 0001 ff 0000",
        MALFORMED,
        "UTF-8",
    ),
    (
        "3.1.3.3 and has no wildcards",
        f"10 13 {MQTT} 05 06 0000 00 0000 00 0001 23 0000",
        MALFORMED,
        "wildcards",
    ),
    (
        "3.1.3-12 the user name is UTF-8",
        f"10 10 {MQTT} 05 82 0000 00 0000 0001 ff",
        MALFORMED,
        "UTF-8",
    ),
    ("3.1.1 3.1.2-22 password alone", f"10 0f {MQTT} 04 42 0000 0001 61 0000", MALFORMED, "user"),
    ("3.1.1 3.1.3-8 empty, session kept", f"10 0c {MQTT} 04 00 0000 0000", IDENTIFIER, "clean"),
    ("3.1 an empty identifier", "10 0e 0006 4d5149736470 03 02 0000 0000", IDENTIFIER, "3.1"),
]

# From a server, version 5.
SERVER_5: list[Case] = [
    ("3.2.2-1 reserved flags of CONNACK", "20 03 02 00 00", MALFORMED, "reserved"),
    ("3.2.2-6 session present though refused", "20 03 01 87 00", FORBIDDEN, "session"),
    ("3.2.2-8 reason codes of CONNACK", "20 03 00 01 00", FORBIDDEN, "0x01"),
    ("3.2.2.3.4 maximum QoS 2", "20 05 00 00 02 24 02", FORBIDDEN, "from 0 to 1"),
    ("3.2.2.3.5 retain available 2", "20 05 00 00 02 25 02", FORBIDDEN, "from 0 to 1"),
    ("3.9.3-2 reason codes of SUBACK", "90 04 0001 00 03", FORBIDDEN, "0x03"),
    ("3.9.3-2 there is one", "90 03 0001 00", FORBIDDEN, "no reason code"),
    ("3.11.3-2 reason codes of UNSUBACK", "b0 04 0001 00 01", FORBIDDEN, "0x01"),
    ("3.13 PINGRESP is empty", "d0 01 00", MALFORMED, "left"),
    ("3.14.2-2 session expiry", "e0 07 00 05 11 00000001", FORBIDDEN, "server may not"),
    ("4.13 SUBSCRIBE from a server", "82 07 0001 00 0001 61 00", FORBIDDEN, "server may not"),
]


def read(decoder: Decoder, sent: bytes) -> None:
    for packet in decoder.feed(sent):
        assert isinstance(packet, Publish), "a wrong packet was accepted"
        packet.validate(decoder.sender)


def check(decoder: Decoder, case: Case) -> None:
    _, sent, reason_code, message = case
    with pytest.raises(ProtocolError, match=message) as raised:
        read(decoder, bytes.fromhex(sent))
    assert raised.value.reason_code is reason_code
    assert raised.value.where


def named(case: Case) -> str:
    return f"MQTT-{case[0]}"


@pytest.mark.parametrize("case", CLIENT_5, ids=named)
def test_refused_from_a_client_of_version_5(case: Case) -> None:
    check(Decoder(version=5), case)


@pytest.mark.parametrize("case", CLIENT_4, ids=named)
def test_refused_from_a_client_of_version_3_1_1(case: Case) -> None:
    check(Decoder(version=4), case)


@pytest.mark.parametrize("case", FIRST, ids=named)
def test_refused_as_the_first_packet(case: Case) -> None:
    check(Decoder(), case)


@pytest.mark.parametrize("case", SERVER_5, ids=named)
def test_refused_from_a_server(case: Case) -> None:
    check(Decoder(version=5, sender=Sender.SERVER), case)


def test_mqtt_1_5_4_3_a_byte_order_mark_is_text() -> None:
    (packet,) = Decoder(version=5).feed(bytes.fromhex("30 07 0004 efbbbf61 00"))
    assert packet == Publish("\ufeffa")


def test_mqtt_3_1_2_24_a_packet_over_the_limit_is_refused_by_its_header_alone() -> None:
    decoder = Decoder(100, version=5)
    assert decoder.feed(b"\x30\x62\x00\x01a\x00" + b"x" * 94) != []
    with pytest.raises(ProtocolError, match="101 bytes long; at most 100") as raised:
        decoder.feed(b"\x30\x63")
    assert raised.value.reason_code is TOO_LARGE


@pytest.mark.parametrize(("version", "sent"), [(4, "30 02 0000"), (5, "30 03 0000 00")])
def test_mqtt_4_7_3_1_an_empty_topic_is_refused_before_anyone_validates(
    version: int, sent: str
) -> None:
    with pytest.raises(ProtocolError, match="empty"):
        Decoder(version=version).feed(bytes.fromhex(sent))


def test_packets_before_an_error_are_not_lost() -> None:
    decoder = Decoder(version=5)
    with pytest.raises(ProtocolError, match="QoS") as raised:
        decoder.feed(bytes.fromhex("30 04 0001 61 00  36 06 0001 61 0001 00  c0 00"))
    assert raised.value.packets == [Publish("a")]
    with pytest.raises(ProtocolError, match="QoS") as again:
        decoder.feed(b"\xc0\x00")
    assert again.value.packets == []


def test_an_error_says_what_where_and_its_code() -> None:
    with pytest.raises(ProtocolError) as raised:
        Decoder(version=5).feed(bytes.fromhex("82 07 0001 00 0001 61 40"))
    assert str(raised.value) == (
        "SUBSCRIBE options: a reserved bit is set [MQTT-3.8.3-5] (0x81 Malformed packet)"
    )
