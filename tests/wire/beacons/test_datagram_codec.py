from random import Random

import pytest
from msgspec.structs import replace

from nearcast.core.proximity.messages import EventMessage
from nearcast.wire.beacons.datagram_codec import MOST_PARTIAL, PARTIAL_S, DatagramCodec
from nearcast.wire.beacons.group_key import GroupKey, GroupKeyError, KeyRing, read_key
from nearcast.wire.beacons.message_codec import BeaconError
from tests.support.fuzzing.mutations import mutated_bytes
from tests.support.plain.proximity_messages import random_message

KEY, OTHER = GroupKey(b"k" * 32), GroupKey(b"o" * 32)
SMALL = EventMessage(
    7, "p", 1, 2, 3, "siren", 1e9, (53.35, -6.26), 1.0, True, b'{"lane":1}'
)  # fmt: skip
LARGE = replace(SMALL, payload=bytes(range(256)) * 100)


def codec(*keys: GroupKey, run: bytes = b"run--1", largest: int = 1_400) -> DatagramCodec:
    return DatagramCodec(KeyRing(keys, run), largest)


@pytest.mark.parametrize("keys", [(), (KEY,)])
@pytest.mark.parametrize("seed", range(40))
def test_every_message_arrives_in_datagrams_that_fit(keys: tuple[GroupKey, ...], seed: int) -> None:
    random = Random(seed)
    message = random_message(random)
    largest = random.choice((200, 600, 1_400))
    if isinstance(message, EventMessage):
        # A message has at most 255 parts.
        message = replace(message, payload=message.payload[: 100 * largest])
    datagrams = codec(*keys, largest=largest).encode(message)
    assert all(len(each) <= largest for each in datagrams)
    random.shuffle(datagrams)
    found = [each for data in datagrams if (each := RECEIVERS[keys].decode(data, 0.0))]
    assert found == [message]


RECEIVERS = {(): codec(run=b"run--2"), (KEY,): codec(KEY, run=b"run--2")}


def test_parts_of_different_forwarders_fit_together() -> None:
    one, two = codec(KEY, run=b"one").encode(LARGE), codec(KEY, run=b"two").encode(LARGE)
    receiver = codec(KEY)
    mixed = [(one if number % 2 else two)[number] for number in range(len(one))]
    assert [receiver.decode(each, 0.0) for each in mixed] == [None] * (len(one) - 1) + [LARGE]


def test_a_key_reveals_nothing_and_stops_everybody_else() -> None:
    (sealed,) = codec(KEY).encode(SMALL)
    assert b"siren" not in sealed
    assert b"lane" not in sealed
    stranger = codec(OTHER)
    assert stranger.decode(sealed, 0.0) is None
    assert stranger.counts.unsealed == 1
    (forged,) = codec(OTHER).encode(SMALL)
    member = codec(KEY)
    assert member.decode(forged, 0.0) is None
    (plain,) = codec().encode(SMALL)
    assert member.decode(plain, 0.0) is None
    assert (member.counts.unsealed, member.counts.foreign) == (1, 1)


def test_no_bit_of_a_sealed_datagram_can_be_changed() -> None:
    (sealed,) = codec(KEY).encode(SMALL)
    member = codec(KEY)
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        assert member.decode(bytes(changed), 0.0) is None


def test_two_datagrams_of_one_message_differ() -> None:
    sender = codec(KEY)
    assert sender.encode(SMALL) != sender.encode(SMALL)


def test_while_keys_change_both_are_read() -> None:
    (old,), (new,) = codec(OTHER).encode(SMALL), codec(KEY).encode(SMALL)
    both = codec(KEY, OTHER)
    assert both.decode(old, 0.0) == both.decode(new, 0.0) == SMALL


def test_incomplete_messages_are_bounded_in_number_and_time() -> None:
    receiver = codec(KEY)
    for number in range(3 * MOST_PARTIAL):
        large = replace(LARGE, number=number + 1)
        assert receiver.decode(codec(KEY).encode(large)[0], 0.0) is None
    assert receiver.counts.partial == 2 * MOST_PARTIAL
    receiver.decode(codec(KEY).encode(replace(LARGE, number=9_999))[0], PARTIAL_S + 1.0)
    assert receiver.counts.partial == 3 * MOST_PARTIAL


def test_garbage_is_ignored() -> None:
    random = Random(3)
    for receiver in (codec(), codec(KEY)):
        for _ in range(2_000):
            message = replace(random.choice((SMALL, LARGE)), number=random.randint(1, 9))
            data = random.choice(codec(*receiver.keys).encode(message))
            changed = mutated_bytes(random, data)
            found = receiver.decode(changed, 0.0)
            assert found is None or not receiver.keys or found.number < 10
        assert receiver.counts.foreign > 0


def test_a_message_that_no_receiver_would_take_is_refused() -> None:
    with pytest.raises(BeaconError, match="exceeds"):
        codec(KEY).encode(replace(SMALL, payload=b"x" * 70_000))


def test_a_key_is_read_from_a_file_or_refused() -> None:
    assert read_key("6b" * 32 + "\n").fingerprint == KEY.fingerprint
    for text in ("", "6b" * 31, "zz" * 32):
        with pytest.raises(GroupKeyError, match="nearcast adhoc key"):
            read_key(text)
