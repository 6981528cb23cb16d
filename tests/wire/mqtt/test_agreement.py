"""The fast decoder and the plain one agree on valid, broken and random bytes.

Both give the same packets before the first error, or both none. Nothing but `ProtocolError`
ever comes out, and every call ends.
"""

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.wire.mqtt import Decoder, Packet, ProtocolError, Publish, Sender, encode
from tests.wire.mqtt.reference import decode, one_by_one
from tests.wire.mqtt.strategies import conversations, from_server, versions

LARGEST = 20_000


def fast(data: bytes, cuts: list[int]) -> tuple[list[Packet], bool]:
    """Decode as a broker does: in parts, with every PUBLISH validated in its turn."""
    decoder = Decoder(LARGEST)
    good: list[Packet] = []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        failed = False
        try:
            packets = decoder.feed(data[start:end])
        except ProtocolError as error:
            packets, failed = error.packets, True
        for packet in packets:
            try:
                if isinstance(packet, Publish):
                    packet.validate()
            except ProtocolError:
                return good, True
            good += one_by_one([packet])
        if failed:
            return good, True
    return good, False


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return bytes like the given ones, with a few places changed."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out) + 1)
        # Where lengths, flags and identifiers are: more errors are near the start.
        at = min(at, chance.randrange(60)) if chance.random() < 0.5 else at
        what = chance.random()
        if what < 0.5:
            out[at : at + 1] = bytes((chance.choice((0, 1, 2, 3, 0x23, 0x26, 0x7F, 0x80, 0xFF)),))
        elif what < 0.8:
            out[at : at + 1] = bytes((chance.randrange(256),))
        elif what < 0.9:
            del out[at : at + chance.randint(1, 3)]
        else:
            out[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 3)))
    return bytes(out)


@settings(max_examples=150)
@given(conversations(), st.lists(st.integers(0, 400), max_size=5))
def test_both_read_valid_bytes_alike(
    conversation: tuple[list[Packet], bytes], cuts: list[int]
) -> None:
    packets, sent = conversation
    cuts = sorted(cut for cut in cuts if cut <= len(sent))
    assert fast(sent, cuts) == decode(sent, LARGEST) == (packets, False)


@settings(max_examples=250)
@given(conversations(), st.integers(0, 2**32))
def test_both_read_mutated_bytes_alike(conversation: tuple[list[Packet], bytes], seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(6):
        data = mutated(conversation[1][:LARGEST], chance)
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(4)))
        assert fast(data, cuts) == decode(data, LARGEST)


@settings(max_examples=150)
@given(st.sampled_from(("a", "a/b", "x" * 120)), st.binary(max_size=300), st.integers(0, 2**32))
def test_both_read_a_publish_alike_that_comes_alone(topic: str, payload: bytes, seed: int) -> None:
    chance = random.Random(seed)
    connect = CONNECTS[0]
    sent = encode(Publish(topic, payload), 5)
    for data in (sent, sent, *(mutated(sent, chance) for _ in range(6)), sent + sent, sent[:-1]):
        whole = connect + data
        assert fast(whole, [len(connect)]) == decode(whole, LARGEST)


CONNECTS = (
    b"\x10\x0d\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x00",
    b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x3c\x00\x02me",
    b"\x10\x10\x00\x06MQIsdp\x03\x02\x00\x3c\x00\x02me",
)
# Packets with all kinds of fields, short enough that a random change often hits one.
SAMPLES = (
    "31 0c 0001 61 07 26 0001 6b 0001 76 7879",
    "32 0f 0001 61 0007 09 01 01 02 0000003c 23 0001 78",
    "30 0b 0000 03 23 0001 6f6f6f6f6f",
    "30 12 0001 61 0d 08 0003 612f62 09 0001 00 03 0001 74 78",
    "3a 06 0002 612f 0001 00",
    "40 03 0007 10",
    "50 09 0007 80 05 1f 0002 6e6f",
    "62 02 0007",
    "70 03 0007 92",
    "82 09 0007 02 0b05 0001 23 2e",
    "82 09 0007 00 0003 612f23 01",
    "82 08 0007 0003 612f23 01",
    "a2 07 0007 0003 612f23",
    "a2 08 0007 00 0003 612f23",
    "c0 00",
    "e0 07 04 05 11 0000003c",
    "e0 00",
    "f0 08 18 06 15 0003 616263",
)


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_samples_are_valid_in_some_version(sample: str) -> None:
    results = [fast(first + bytes.fromhex(sample), []) for first in CONNECTS]
    assert any(len(packets) == 2 and not failed for packets, failed in results)


@pytest.mark.parametrize("seed", range(8))
def test_both_read_changed_samples_alike(seed: int) -> None:
    chance = random.Random(seed)
    agreed_errors = 0
    for _ in range(500):
        samples = b"".join(
            bytes.fromhex(chance.choice(SAMPLES)) for _ in range(chance.randint(1, 3))
        )
        first = chance.choice(CONNECTS)
        data = first + mutated(samples, chance) if chance.random() < 0.8 else mutated(first, chance)
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(3)))
        result = fast(data, cuts)
        assert result == decode(data, LARGEST), data.hex(" ")
        agreed_errors += result[1]
    assert 50 < agreed_errors < 490


@settings(max_examples=300)
@given(st.binary(max_size=120), st.sampled_from((b"", *CONNECTS)))
def test_random_bytes_raise_nothing_but_protocol_errors(data: bytes, before: bytes) -> None:
    assert fast(before + data, []) == decode(before + data, LARGEST)


@settings(max_examples=200)
@given(st.data(), st.integers(0, 2**32))
def test_mutated_packets_of_a_server_raise_nothing_but_protocol_errors(
    data: st.DataObject, seed: int
) -> None:
    version = data.draw(versions)
    sent = encode(data.draw(from_server(version)), version)
    chance = random.Random(seed)
    for _ in range(5):
        decoder = Decoder(LARGEST, sender=Sender.SERVER, version=version)
        with suppress(ProtocolError):
            for packet in decoder.feed(mutated(sent, chance)):
                if isinstance(packet, Publish):
                    packet.validate(Sender.SERVER)
