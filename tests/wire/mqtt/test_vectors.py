"""Packets as bytes, written by hand from the tables of the specifications."""

import pytest

from nearcast.wire.mqtt import (
    Auth,
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
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
)

CLIENT, SERVER = Sender.CLIENT, Sender.SERVER
R = ReasonCode

CONNECTS: list[tuple[Connect, str]] = [
    (Connect("", 5, True, 60), "10 0d 0004 4d515454 05 02 003c 00 0000"),
    (Connect("me", 4, False, 10), "10 0e 0004 4d515454 04 00 000a 0002 6d65"),
    (Connect("me", 3, True, 10), "10 10 0006 4d5149736470 03 02 000a 0002 6d65"),
    (
        Connect("c", 4, True, 0, Will("w", b"gone", 1, True), "u", b"p"),
        "10 1c 0004 4d515454 04 ee 0000 0001 63 0001 77 0004 676f6e65 0001 75 0001 70",
    ),
    (
        Connect(
            "c",
            5,
            False,
            0,
            Will("w", b"", 2, False, Properties(will_delay_interval=5)),
            None,
            b"p",
            Properties(session_expiry_interval=0xFFFFFFFF, receive_maximum=20),
        ),
        "10 24 0004 4d515454 05 54 0000 08 11 ffffffff 21 0014 0001 63"
        "05 18 00000005 0001 77 0000 0001 70",
    ),
]

PACKETS: list[tuple[int, Sender, Packet, str]] = [
    (5, SERVER, ConnAck(), "20 03 00 00 00"),
    (
        5,
        SERVER,
        ConnAck(True, R.SUCCESS, Properties(topic_alias_maximum=10, maximum_packet_size=1_048_576)),
        "20 0b 01 00 08 22 000a 27 00100000",
    ),
    (4, SERVER, ConnAck(True), "20 02 01 00"),
    (4, SERVER, ConnAck(False, R.NOT_AUTHORIZED), "20 02 00 05"),
    (3, SERVER, ConnAck(False, R.UNSUPPORTED_PROTOCOL_VERSION), "20 02 00 01"),
    (4, CLIENT, Publish("a/b", b"hello"), "30 0a 0003 612f62 68656c6c6f"),
    (5, CLIENT, Publish("a/b", b"hello"), "30 0b 0003 612f62 00 68656c6c6f"),
    (5, CLIENT, Publish("a/b", b"", 2, True, True, 10), "3d 08 0003 612f62 000a 00"),
    (
        5,
        CLIENT,
        Publish("a", b"x", 1, False, False, 1).with_(
            Properties(
                payload_format_indicator=1,
                message_expiry_interval=60,
                user_properties=(("k", "v"), ("k", "v")),
            )
        ),
        "32 1c 0001 61 0001 15 01 01 02 0000003c 26 0001 6b 0001 76 26 0001 6b 0001 76 78",
    ),
    (
        5,
        SERVER,
        Publish("a").with_(Properties(subscription_identifiers=(1, 128))),
        "30 09 0001 61 05 0b 01 0b 80 01",
    ),
    (4, CLIENT, PubAck(258), "40 02 0102"),
    (5, CLIENT, PubAck(258), "40 02 0102"),
    (5, CLIENT, PubAck(1, R.NO_MATCHING_SUBSCRIBERS), "40 03 0001 10"),
    (
        5,
        CLIENT,
        PubRec(1, R.QUOTA_EXCEEDED, Properties(reason_string="no")),
        "50 09 0001 97 05 1f 0002 6e6f",
    ),
    (4, CLIENT, PubRel(1), "62 02 0001"),
    (5, CLIENT, PubComp(1, R.PACKET_IDENTIFIER_NOT_FOUND), "70 03 0001 92"),
    (
        4,
        CLIENT,
        Subscribe(10, (TopicFilter("a/b", 1), TopicFilter("c/d", 2))),
        "82 0e 000a 0003 612f62 01 0003 632f64 02",
    ),
    (
        5,
        CLIENT,
        Subscribe(
            10,
            (TopicFilter("a/b", 1), TopicFilter("c/d", 2, True, True, 2)),
            Properties(subscription_identifiers=(300,)),
        ),
        "82 12 000a 03 0b ac02 0003 612f62 01 0003 632f64 2e",
    ),
    (
        4,
        SERVER,
        SubAck(10, (R.SUCCESS, R.GRANTED_QOS_2, R.UNSPECIFIED_ERROR)),
        "90 05 000a 00 02 80",
    ),
    (5, SERVER, SubAck(10, (R.GRANTED_QOS_1, R.NOT_AUTHORIZED)), "90 05 000a 00 01 87"),
    (4, CLIENT, Unsubscribe(10, ("a/b", "c/d")), "a2 0c 000a 0003 612f62 0003 632f64"),
    (5, CLIENT, Unsubscribe(10, ("a/b",)), "a2 08 000a 00 0003 612f62"),
    (4, SERVER, UnsubAck(10), "b0 02 000a"),
    (
        5,
        SERVER,
        UnsubAck(10, (R.SUCCESS, R.NO_SUBSCRIPTION_EXISTED)),
        "b0 05 000a 00 00 11",
    ),
    (4, CLIENT, PingReq(), "c0 00"),
    (5, SERVER, PingResp(), "d0 00"),
    (4, CLIENT, Disconnect(), "e0 00"),
    (5, CLIENT, Disconnect(), "e0 00"),
    (5, CLIENT, Disconnect(R.DISCONNECT_WITH_WILL_MESSAGE), "e0 01 04"),
    (
        5,
        SERVER,
        Disconnect(R.USE_ANOTHER_SERVER, Properties(server_reference="b:1")),
        "e0 08 9c 06 1c 0003 623a31",
    ),
    (5, CLIENT, Auth(), "f0 00"),
    (
        5,
        SERVER,
        Auth(
            R.CONTINUE_AUTHENTICATION,
            Properties(authentication_method="S", authentication_data=b"\x00\xff"),
        ),
        "f0 0b 18 09 15 0001 53 16 0002 00ff",
    ),
]


@pytest.mark.parametrize(("packet", "sent"), CONNECTS)
def test_connects(packet: Connect, sent: str) -> None:
    assert encode(packet).hex() == bytes.fromhex(sent).hex()
    assert Decoder().feed(bytes.fromhex(sent)) == [packet]


@pytest.mark.parametrize(("version", "sender", "packet", "sent"), PACKETS)
def test_packets(version: int, sender: Sender, packet: Packet, sent: str) -> None:
    assert encode(packet, version).hex() == bytes.fromhex(sent).hex()
    assert Decoder(version=version, sender=sender).feed(bytes.fromhex(sent)) == [packet]


@pytest.mark.parametrize(
    ("version", "sent", "packet"),
    [
        (5, "40 04 0001 00 00", PubAck(1)),
        (5, "e0 02 00 00", Disconnect()),
        # DUP is a flag of these packets in MQTT 3.1.
        (3, "8a 06 0001 0001 61 01", Subscribe(1, (TopicFilter("a", 1),))),
        (3, "6a 02 0001", PubRel(1)),
        # The shortest form of lengths is demanded by MQTT 5 only.
        (4, "c0 80 00", PingReq()),
        (4, "c0 80 80 00", PingReq()),
    ],
)
def test_other_bytes_for_the_same(version: int, sent: str, packet: Packet) -> None:
    assert Decoder(version=version).feed(bytes.fromhex(sent)) == [packet]


@pytest.mark.parametrize(
    ("size", "length"),
    [
        (127, "7f"),
        (128, "8001"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        (2_097_151, "ffff7f"),
        (2_097_152, "80808001"),
    ],
)
def test_remaining_lengths_at_their_limits(size: int, length: str) -> None:
    packet = Publish("a", b"x" * (size - 3))
    sent = encode(packet, 4)
    assert sent.startswith(b"\x30" + bytes.fromhex(length) + b"\x00\x01a")
    assert Decoder(version=4).feed(sent) == [packet]


def test_flags_without_meaning_are_ignored_in_version_3_1() -> None:
    sent = "10 10 0006 4d5149736470 03 fb 000a 0002 6d65"
    assert Decoder().feed(bytes.fromhex(sent)) == [Connect("me", 3, True, 10)]
