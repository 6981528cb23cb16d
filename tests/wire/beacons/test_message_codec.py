import math
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from nearcast.core.proximity.messages import EventMessage, Message
from nearcast.wire.beacons.message_codec import BeaconError, decode_message, encode_message
from tests.support.fuzzing.mutations import mutated_bytes
from tests.support.plain.proximity_messages import random_message


@pytest.mark.parametrize("seed", range(200))
def test_every_message_is_read_back(seed: int) -> None:
    message = random_message(Random(seed))
    assert decode_message(encode_message(message)) == message


EVENT = EventMessage(
    7, "p", 1, 2, 3, "siren", 1e9, (53.35, -6.26), 1.0, True, b'{"lane":1}'
)  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        replace(EVENT, group=1 << 24),
        replace(EVENT, group=-1),
        replace(EVENT, producer=""),
        replace(EVENT, producer="x" * 300),
        replace(EVENT, subject="siren/#"),
        replace(EVENT, number=0),
        replace(EVENT, time=math.inf),
        replace(EVENT, naval=(91.0, 0.0)),
        replace(EVENT, naval=(math.nan, 0.0)),
        replace(EVENT, at=(0.0, 181.0)),
        replace(EVENT, scale=0.0),
    ],
)
def test_values_out_of_range_are_refused(message: Message) -> None:
    with pytest.raises(BeaconError):
        decode_message(encode_message(message))


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x90", b"\x91\x02", b"\xff" * 40, b"\x91" * 2_000, b"\x00" * 70_000,
     msgspec.msgpack.encode([9, "p"])],
)  # fmt: skip
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(BeaconError):
        decode_message(data)


def test_mutated_messages_are_refused_or_valid() -> None:
    random = Random(7)
    refused = 0
    for _ in range(3_000):
        data = mutated_bytes(random, encode_message(random_message(random)))
        try:
            found = decode_message(data)
        except BeaconError:
            refused += 1
        else:
            assert decode_message(encode_message(found)) == found
    assert refused > 300
