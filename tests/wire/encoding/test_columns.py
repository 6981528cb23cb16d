"""JSON as columns: what is encoded comes back byte for byte, and hostile bytes are refused."""

import contextlib
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.wire.encoding.budget import Budget
from nearcast.wire.encoding.byte_streams import ByteReader, ByteWriter
from nearcast.wire.encoding.columns import USUAL_NAMES, decode_columns, encode_columns
from nearcast.wire.encoding.errors import DecodingError
from nearcast.wire.encoding.integer_columns import read_integers, write_integers
from nearcast.wire.encoding.zstd_frames import compress, compress_bare, decompress_bare

TEXTS = st.one_of(
    st.text(max_size=8),
    st.from_regex(r"\A20[0-9]{2}-0[1-9]-1[0-9]T1[0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{3})?Z\Z"),
    st.from_regex(r"\A([0-9a-f]{2}){4}\Z"),
    st.integers(0, 10**6).map(lambda number: f"car-{number}"),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), TEXTS,
    st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**8), 10**8).map(lambda number: number / 10**6),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
        st.lists(st.fixed_dictionaries({"a": inner}, optional={"b": inner}), max_size=6),
    ),
    max_leaves=40,
)


def aggregate(count: int) -> bytes:
    """An aggregate as a broker makes it."""
    chance = random.Random(7)
    events = [
        {
            "id": f"{chance.getrandbits(80):020x}",
            "publisher": f"car-{chance.randrange(60_000)}",
            "time": f"2026-11-15T14:30:{each:02}.{chance.randrange(1000):03}Z",
            "position": [round(chance.uniform(-6.4, -6.1), 5), round(chance.uniform(53, 54), 5)],
            "attributes": {"speed": chance.randrange(120), "hazards": chance.choice([0, 0, 0, 1])},
        }
        for each in range(count)
    ]
    people = sorted({str(each["publisher"]) for each in events})
    return msgspec.json.encode({"people": people, "count": count, "events": events})


@given(VALUES)
def test_any_json_comes_back_byte_for_byte(value: object) -> None:
    payload = msgspec.json.encode(value)
    encoded = encode_columns(payload)
    if encoded is not None:
        assert decode_columns(encoded) == payload


@given(st.lists(st.fixed_dictionaries({"n": SCALARS, "p": st.lists(SCALARS)}), min_size=2))
def test_lists_of_like_objects_come_back(value: object) -> None:
    payload = msgspec.json.encode(value)
    encoded = encode_columns(payload)
    if encoded is not None:
        assert decode_columns(encoded) == payload


def test_an_aggregate_becomes_a_fraction_of_its_size() -> None:
    payload = aggregate(50)
    encoded = encode_columns(payload)
    assert encoded is not None
    assert decode_columns(encoded) == payload
    assert len(encoded) < len(payload) / 5
    assert len(encoded) < len(compress(payload)) * 0.7


@pytest.mark.parametrize(
    "payload", [b"", b"no json", b'{"a": 1}', b'{"a":1.50}', b"\xff", b'{"a":1,"a":2}', b"[" * 500]
)
def test_what_would_not_come_back_is_left_alone(payload: bytes) -> None:
    assert encode_columns(payload) is None


@given(st.lists(st.integers(-(2**62), 2**62 - 1), max_size=40))
def test_integers_come_back(values: list[int]) -> None:
    out = ByteWriter()
    write_integers(out, values)
    assert read_integers(ByteReader(out.result()), len(values), Budget()) == values


@given(st.binary(max_size=200))
def test_hostile_bytes_are_refused(data: bytes) -> None:
    for hostile in (data, packed(data)):
        with contextlib.suppress(DecodingError):
            decode_columns(hostile)


@given(st.randoms(use_true_random=False), st.integers(1, 5))
def test_damaged_columns_are_refused_or_decode_within_bounds(
    chance: random.Random, flips: int
) -> None:
    out = bytearray(columns_of(aggregate(6)))
    for _ in range(flips):
        out[chance.randrange(len(out))] = chance.randrange(256)
    with contextlib.suppress(DecodingError):
        assert len(decode_columns(packed(bytes(out)), most=100_000)) <= 100_000


def packed(columns: bytes) -> bytes:
    return compress_bare(columns, USUAL_NAMES)


def columns_of(payload: bytes) -> bytes:
    """The columns of a payload before they are compressed."""
    encoded = encode_columns(payload)
    assert encoded is not None
    return decompress_bare(encoded, USUAL_NAMES)


def bomb(*parts: bytes) -> bytes:
    return packed(b"".join(parts))


BILLION = b"\x80\x94\xeb\xdc\x03"
LENGTHS = b"\x09\x00" + b"\x80\xa8\xd6\xb9\x07" + b"\x00"  # a list of 10^9 elements
BOMBS = {
    "many": bomb(LENGTHS, b"\x01\x011"),
    "long": bomb(b"\x09\x00\x80\x80\x08\x00", b"\x01", b"\x80\x80\x04", b'"' + b"x" * 65534 + b'"'),
    "deep": bomb(b"\x09\x00\x02\x00" * 60),
    "zeros": packed(bytes(200 << 20)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_before_they_grow(name: str) -> None:
    with pytest.raises(DecodingError):
        decode_columns(BOMBS[name])
