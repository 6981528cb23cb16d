"""Payloads in the smallest accepted coding, and back."""

import contextlib
import random

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from nearcast.wire.encoding.content_codings import (
    ALL,
    Coding,
    Dictionary,
    accepted_codings,
    coding_names,
    decode_payload,
    encode_payload,
)
from nearcast.wire.encoding.errors import DecodingError
from nearcast.wire.encoding.zstd_frames import compress, decompress

CHANCE = random.Random(3)


def message() -> bytes:
    position = [round(CHANCE.uniform(-6.4, -6.1), 5), round(CHANCE.uniform(53.2, 53.5), 5)]
    return msgspec.json.encode(
        {"vehicle": f"car-{CHANCE.randrange(60_000)}", "position": position,
         "speed": CHANCE.randrange(120), "hazards": CHANCE.choice((0, 0, 0, 1))}
    )  # fmt: skip


TRAINED = zstandard.train_dictionary(4_096, [message() for _ in range(2_000)]).as_bytes()
DICTIONARY = Dictionary(7, TRAINED)
PAYLOADS = st.one_of(
    st.binary(max_size=3_000),
    st.lists(st.builds(dict, a=st.integers(), b=st.text())).map(msgspec.json.encode),
    st.integers(0, 200).map(lambda count: b"abc" * count),
)


@given(PAYLOADS, st.integers(0, 7).map(Coding), st.booleans())
def test_every_payload_comes_back_in_any_coding(
    payload: bytes, accepted: Coding, has_dictionary: bool
) -> None:
    encoded = encode_payload(payload, accepted, DICTIONARY if has_dictionary else None)
    if encoded is None:
        return
    assert encoded.name in coding_names(accepted)
    assert len(encoded.payload) < len(payload)
    assert decode_payload(encoded.name, encoded.payload, {7: TRAINED}) == payload


def test_a_small_message_needs_a_dictionary() -> None:
    payload = message()
    assert encode_payload(payload, ALL) is None
    encoded = encode_payload(payload, ALL, DICTIONARY)
    assert encoded is not None
    assert (encoded.name, encoded.payload[:1]) == ("dictionary", b"\7")
    assert len(encoded.payload) <= 40


def test_a_payload_of_a_dictionary_that_was_not_told_is_refused() -> None:
    encoded = encode_payload(message(), ALL, DICTIONARY)
    assert encoded is not None
    with pytest.raises(DecodingError, match="dictionary 7 was not told"):
        decode_payload(encoded.name, encoded.payload, {8: TRAINED})


@pytest.mark.parametrize(
    ("text", "codings"),
    [
        ("zstd", Coding.ZSTD), ("columns, zstd", Coding.COLUMNS | Coding.ZSTD), ("", Coding.NONE),
        ("br, ZSTD;q=1, gzip", Coding.NONE), (" Zstd ,later", Coding.ZSTD),
    ],
)  # fmt: skip
def test_unknown_codings_are_passed_over(text: str, codings: Coding) -> None:
    assert accepted_codings(text) == codings


def test_names_are_read_as_written() -> None:
    assert accepted_codings(coding_names(ALL)) == ALL


@pytest.mark.parametrize("name", ["zstd", "columns", "dictionary", "gzip"])
@given(data=st.binary(max_size=100))
def test_hostile_payloads_are_refused(name: str, data: bytes) -> None:
    with contextlib.suppress(DecodingError):
        assert len(decode_payload(name, data, {0: TRAINED}, most=1_000)) <= 1_000


def test_a_bomb_is_refused_whatever_size_it_declares() -> None:
    declared = compress(bytes(64 << 20))
    undeclared = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(64 << 20))
    for bomb in (declared, undeclared):
        with pytest.raises(DecodingError, match="would exceed"):
            decompress(bomb)
    assert decompress(compress(bytes(1_000)), most=1_000) == bytes(1_000)


def test_a_window_that_needs_much_memory_is_refused() -> None:
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    whole = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    frame = whole.compress(b"x" * 100) + whole.flush()
    with pytest.raises(DecodingError, match="no zstd frame"):
        decompress(frame)
