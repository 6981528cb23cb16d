"""Seed E's application: clients that tell where they drive, how fast, and how many hazards.

Every message goes to every client. A message is a context as an aggregate shows it, so that single
messages and aggregates carry the same: who, when, where, speed and hazards.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import zstandard
from msgspec import Struct
from numpy.typing import NDArray

from nearcast.core.gathering.aggregates.parts import Part
from nearcast.core.gathering.group import Group
from nearcast.core.gathering.needs.thresholds import Threshold
from nearcast.core.model.time_text import time_text
from nearcast.core.propagation.chains.chain_plan import Peers

TOPIC = "traffic/report"
_START = 1_763_217_000.0
_SOUTH, _WEST, _DEGREES = 53.2, -6.45, 0.3
_SPEED_DEGREES = 1e-4
_TRAINING_MESSAGES, _DICTIONARY_BYTES = 4_000, 4_096
_SIX_HOSTS, _FIRST_PORT = 6, 10_000


class ContextMessage(Struct, frozen=True):
    """One message: when it was sent, and as a part of aggregates."""

    sent: float
    part: Part
    payload: bytes


class ReadyMessage(Struct, frozen=True):
    """What the server propagates: when it was ready, and what it holds."""

    ready: float
    payload: bytes
    sent: NDArray[np.float64]
    """When its messages were sent."""


class Clients(Struct, frozen=True):
    """All clients: where they start, where they are heading, their addresses."""

    lats: NDArray[np.float64]
    lons: NDArray[np.float64]
    lat_speeds: NDArray[np.float64]
    lon_speeds: NDArray[np.float64]
    weak: NDArray[np.bool_]
    addresses: Sequence[bytes]
    """6 bytes each, all different."""
    on_six_hosts: Sequence[bytes]
    """As in the text: all on six machines, with a port each."""

    def __len__(self) -> int:
        return len(self.lats)

    def peers(self, second: float) -> Peers:
        """Return them where they are at a time."""
        return Peers(
            self.lats + self.lat_speeds * second, self.lons + self.lon_speeds * second, self.weak
        )


def some_clients(count: int, seed: int) -> Clients:
    """Return clients all over a city, a fifth of them with weak links."""
    chance = np.random.default_rng((seed, 1))
    places = chance.choice(1 << 40, count, replace=False)
    addresses = [int(each).to_bytes(6, "big") for each in places + (1 << 44)]
    hosts = [bytes((192, 168, 1, 1 + each % _SIX_HOSTS)) for each in range(count)]
    ports = [(_FIRST_PORT + each // _SIX_HOSTS).to_bytes(2, "big") for each in range(count)]
    return Clients(
        _SOUTH + chance.random(count) * _DEGREES,
        _WEST + chance.random(count) * _DEGREES,
        chance.normal(0.0, _SPEED_DEGREES, count),
        chance.normal(0.0, _SPEED_DEGREES, count),
        chance.random(count) < 0.2,
        addresses,
        [host + port for host, port in zip(hosts, ports, strict=True)],
    )


def some_messages(clients: int, count: int, rate_hz: float, seed: int) -> list[ContextMessage]:
    """Return messages of random clients, at random times with a mean rate."""
    chance = np.random.default_rng((seed, 2))
    sent = np.cumsum(chance.exponential(1.0 / rate_hz, count))
    counts: dict[int, int] = {}
    found = []
    for second in sent.tolist():
        client = int(chance.integers(clients))
        counts[client] = counts.get(client, 0) + 1
        lat = round(float(_SOUTH + chance.random() * _DEGREES), 5)
        lon = round(float(_WEST + chance.random() * _DEGREES), 5)
        context = {"speed": int(chance.integers(121)), "hazards": int(chance.poisson(0.4))}
        part = Part(
            str(counts[client]), f"car-{client}", _START + second, _START + second, lat, lon,
            msgspec.json.encode(context),
        )  # fmt: skip
        payload = msgspec.json.encode(
            {"id": part.id, "publisher": part.publisher, "time": time_text(part.time),
             "position": [lon, lat], "attributes": context}
        )  # fmt: skip
        found.append(ContextMessage(second, part, payload))
    return found


def trained_dictionary(clients: int, seed: int) -> bytes:
    """Return a dictionary from messages of another day."""
    earlier = some_messages(clients, _TRAINING_MESSAGES, 1.0, seed + 1_000)
    samples = [message.payload for message in earlier]
    return zstandard.train_dictionary(_DICTIONARY_BYTES, [*samples]).as_bytes()


def gathered(messages: Sequence[ContextMessage], threshold: Threshold) -> Iterator[ReadyMessage]:
    """Yield what is ready for propagation; the rest leaves when the last message came."""
    group, waiting = Group(TOPIC, ""), list[float]()
    for message in messages:
        waiting.append(message.sent)
        released = group.add(message.part, threshold)
        if released is not None:
            payload = message.payload if len(waiting) == 1 else released.payload
            yield ReadyMessage(message.sent, payload, np.array(waiting))
            waiting = []
    released = group.expire(float("inf"), msgspec.structs.replace(threshold, wait_s=0.0))
    if released is not None:
        payload = messages[-1].payload if len(waiting) == 1 else released.payload
        yield ReadyMessage(messages[-1].sent, payload, np.array(waiting))
