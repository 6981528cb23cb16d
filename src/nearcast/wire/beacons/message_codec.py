"""Messages of nodes without a broker as bytes: MessagePack arrays, checked when they are read.

Whatever arrives is either a message whose values are all in range, or a `BeaconError`.
"""

import math
from collections.abc import Iterable

import msgspec

from nearcast.core.model.subject import check_pattern, check_subject
from nearcast.core.proximity.discovery.event_type import LONGEST_SUBJECT
from nearcast.core.proximity.discovery.proximity import LARGEST_SCALE
from nearcast.core.proximity.messages import Beacon, EventMessage, Holdings, Message, Request
from nearcast.errors import NearcastError

LARGEST_MESSAGE_BYTES = 64 * 1024
LONGEST_NAME = 256
LONGEST_AREA = 8_192
MOST_LISTED = 4_096
LONGEST_SIGNATURE = 64
LATEST = 1e11
"""No time of ours is later than this, in seconds since 1970."""
MOST = 1 << 62

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class BeaconError(NearcastError, ValueError):
    """A datagram of nodes without a broker that is not valid; it is ignored."""


def encode_message(message: Message) -> bytes:
    """Return a message as bytes."""
    return _ENCODER.encode(message)


def decode_message(data: bytes) -> Message:
    """Return the message that bytes stand for, or raise `BeaconError`."""
    if len(data) > LARGEST_MESSAGE_BYTES:
        raise BeaconError(f"a message has {len(data)} bytes; {LARGEST_MESSAGE_BYTES} are allowed")
    try:
        message = _DECODER.decode(data)
        if isinstance(message, EventMessage):
            _check_event(message)
        elif isinstance(message, Beacon):
            _check_beacon(message)
        else:
            _check_list(message)
        if len(message.signature) > LONGEST_SIGNATURE:
            raise ValueError("a signature is too long")
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BeaconError(f"not a message: {error}") from None
    return message


def _check_event(message: EventMessage) -> None:
    _check_names((message.producer,))
    if len(message.publisher) > LONGEST_NAME or len(message.event_id) > LONGEST_NAME:
        raise ValueError("a name is too long")
    check_subject(message.subject)
    if len(message.subject) > LONGEST_SUBJECT:
        raise ValueError("a subject is too long")
    _check_numbers(message.incarnation, message.number, message.sequence)
    if not 0 <= message.group < 1 << 24:
        raise ValueError("a group has 24 bits")
    _check_at(message.naval)
    if message.at is not None:
        _check_at(message.at)
    _check_range(message.time, 0.0, LATEST, "time")
    _check_range(message.scale, 1.0, LARGEST_SCALE, "scale")
    if message.beacon is not None:
        _check_beacon(message.beacon)


def _check_beacon(beacon: Beacon) -> None:
    _check_names((beacon.producer,))
    if len(beacon.area) > LONGEST_AREA:
        raise ValueError("an area is too long")
    if beacon.sought:
        check_pattern(beacon.type.subject)
    if len(beacon.signature) > LONGEST_SIGNATURE:
        raise ValueError("a signature is too long")
    _check_numbers(beacon.incarnation, beacon.number)
    _check_at(beacon.initial)
    _check_at(beacon.naval)
    _check_range(beacon.time, 0.0, LATEST, "time")
    _check_range(beacon.scale, 1.0, LARGEST_SCALE, "scale")
    _check_range(beacon.period_s, 0.01, 3_600.0, "period")


def _check_list(message: Holdings | Request) -> None:
    _check_names((message.sender,))
    _check_numbers(message.incarnation, message.number)
    _check_range(message.time, 0.0, LATEST, "time")
    if isinstance(message, Holdings):
        _check_at(message.at)
    else:
        _check_names((message.holder,))
    if sum(1 + len(numbers) for _, _, _, numbers in message.events) > MOST_LISTED:
        raise ValueError("too many events are listed")
    for subject, producer, incarnation, numbers in message.events:
        check_subject(subject)
        _check_names((producer,))
        _check_numbers(incarnation, *numbers)


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if not 1 <= len(name) <= LONGEST_NAME:
            raise ValueError(f"a name has 1 to {LONGEST_NAME} characters")


def _check_numbers(*numbers: int) -> None:
    for number in numbers:
        if not 0 < number < MOST:
            raise ValueError("a number is out of range")


def _check_at(at: tuple[float, float]) -> None:
    lat, lon = at
    if not (abs(lat) <= 90.0 and abs(lon) <= 180.0):
        raise ValueError("a position is out of range")


def _check_range(value: float, least: float, most: float, what: str) -> None:
    if not (math.isfinite(value) and least <= value <= most):
        raise ValueError(f"{what} is out of range")
