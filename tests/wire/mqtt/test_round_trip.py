"""Every packet of every version comes back as it was, however its bytes are cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.wire.mqtt import Connect, Decoder, Packet, Publish, Sender, encode
from tests.wire.mqtt.reference import one_by_one
from tests.wire.mqtt.strategies import (
    VERSIONS,
    connects,
    conversations,
    from_client,
    from_server,
    versions,
)


@given(versions.flatmap(connects))
def test_a_connect_comes_back_and_sets_the_version(packet: Connect) -> None:
    decoder = Decoder()
    assert decoder.feed(encode(packet, packet.version)) == [packet]
    assert decoder.version == packet.version


@settings(max_examples=300)
@given(st.data())
def test_what_a_client_sends_comes_back(data: st.DataObject) -> None:
    version = data.draw(versions)
    packet = data.draw(from_client(version))
    assert Decoder(version=version).feed(encode(packet, version)) == [packet]


@settings(max_examples=300)
@given(st.data())
def test_what_a_server_sends_comes_back(data: st.DataObject) -> None:
    version = data.draw(versions)
    packet = data.draw(from_server(version))
    decoder = Decoder(version=version, sender=Sender.SERVER)
    assert decoder.feed(encode(packet, version)) == [packet]
    if isinstance(packet, Publish):
        packet.validate(Sender.SERVER)


@settings(max_examples=150)
@given(conversations(), st.data())
def test_any_cuts_give_the_same_packets(
    conversation: tuple[list[Packet], bytes], data: st.DataObject
) -> None:
    packets, sent = conversation
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    decoder = Decoder()
    received: list[Packet] = []
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        received += decoder.feed(sent[start:end])
    assert one_by_one(received) == packets
    assert decoder.waiting == 0


@settings(max_examples=150)
@given(conversations(), st.data())
def test_packets_taken_a_few_at_a_time_are_the_same(
    conversation: tuple[list[Packet], bytes], data: st.DataObject
) -> None:
    packets, sent = conversation
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    few = st.integers(1, 3)
    decoder = Decoder()
    received: list[Packet] = []
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        if data.draw(st.booleans()):
            decoder.keep(sent[start:end])
            continue
        most = data.draw(few)
        received += decoder.feed(sent[start:end], most)
        if data.draw(st.booleans()):
            while decoder.unread:
                received += decoder.read(most)
    while decoder.unread:
        received += decoder.read(data.draw(few))
    assert one_by_one(received) == packets
    assert decoder.waiting == 0


@settings(max_examples=30)
@given(conversations())
def test_one_byte_at_a_time_gives_the_same_packets(
    conversation: tuple[list[Packet], bytes],
) -> None:
    packets, sent = conversation
    decoder = Decoder()
    received = [packet for at in range(len(sent)) for packet in decoder.feed(sent[at : at + 1])]
    assert received == packets


def test_views_and_byte_arrays_are_read_like_bytes() -> None:
    sent = encode(Connect("me"))
    for data in (bytearray(sent), memoryview(sent)):
        decoder = Decoder()
        assert decoder.feed(data[:5]) == []
        assert decoder.feed(data[5:]) == [Connect("me")]


def test_what_was_read_does_not_change_with_the_buffer_it_came_in() -> None:
    buffer = bytearray(encode(Publish("a", b"payload")))
    decoder = Decoder(version=5)
    (packet,) = decoder.feed(memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert packet == Publish("a", b"payload")


def test_a_large_packet_in_small_parts_waits_without_being_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    read = Decoder._read

    def counted(self: Decoder, data: bytes, at: int, packets: list[Packet], most: int) -> int:
        sizes.append(len(data))
        return read(self, data, at, packets, most)

    monkeypatch.setattr(Decoder, "_read", counted)
    for version in VERSIONS:
        sizes.clear()
        sent = encode(Publish("a", b"x" * 300_000), version) * 2
        decoder = Decoder(version=version)
        parts = [sent[at : at + 100] for at in range(0, len(sent), 100)]
        received = [packet for part in parts for packet in decoder.feed(part)]
        assert received == [Publish("a", b"x" * 300_000)] * 2
        assert sum(sizes) < 2 * len(sent)
