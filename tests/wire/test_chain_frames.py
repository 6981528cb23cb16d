"""Chain messages come back from bytes, and hostile ones are refused."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.propagation.chains.chain_message import ChainMessage
from nearcast.wire.chain_frames import decode_chain, encode_chain
from nearcast.wire.encoding.errors import DecodingError

SIGNATURE = bytes(range(64))
ADDRESSES = st.one_of(
    st.lists(st.binary(min_size=6, max_size=6), max_size=40),
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 65_535)), max_size=40).map(
        lambda pairs: [bytes((10, 0, 0, host)) + port.to_bytes(2, "big") for host, port in pairs]
    ),
)


@given(st.integers(0, 2**63), st.binary(max_size=300), st.integers(1, 16), ADDRESSES)
def test_a_chain_message_comes_back(
    number: int, content: bytes, degree: int, members: list[bytes]
) -> None:
    message = ChainMessage(number, content, tuple(members), degree, SIGNATURE)
    assert decode_chain(encode_chain(message)) == message


def test_addresses_take_six_bytes_and_those_of_few_hosts_three() -> None:
    distinct = tuple(each.to_bytes(6, "big") for each in range(7, 7 << 32, 7 << 22))
    assert len(distinct) == 1_024
    sizes = [len(encode_chain(ChainMessage(1, b"", distinct[:n], 1, SIGNATURE))) for n in (0, 500)]
    assert sizes[1] - sizes[0] <= 6 * 500 + 2
    few = tuple(bytes((10, 0, 0, n % 6)) + n.to_bytes(2, "big") for n in range(600))
    assert len(encode_chain(ChainMessage(1, b"", few, 1, SIGNATURE))) - sizes[0] < 3 * 600 + 40


@given(st.binary(max_size=200))
def test_hostile_bytes_are_refused(data: bytes) -> None:
    for hostile in (data, b"\1\1\0" + SIGNATURE + data):
        with contextlib.suppress(DecodingError):
            decode_chain(hostile)


@pytest.mark.parametrize(
    "data",
    [
        b"\2", b"\1\0\0", b"\1\x11\0", b"\1\1\0" + SIGNATURE + b"\0\xff\xff\xff\x7f\0",
        b"\1\1\0" + SIGNATURE + b"\xff\xff\xff\x7f", b"\1\1\0" + SIGNATURE + b"\0\0\0x",
        b"\1\1\0" + SIGNATURE + b"\0\1\1\1aaaa\1pp", b"\1\1\0" + SIGNATURE + b"\0\1\2",
    ],
)  # fmt: skip
def test_what_no_broker_sends_is_refused(data: bytes) -> None:
    with pytest.raises(DecodingError):
        decode_chain(data)
