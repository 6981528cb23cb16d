"""One run: what is ready goes over the server's link, directly or along chains of peers.

The link is a queue: every push costs a fixed time and its bytes. Peers pass a message on over links
of their own. Bytes are those of real frames, made by the encoders that a broker uses.
"""

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from nearcast.core.propagation.chains.chain_message import ChainMessage
from nearcast.core.propagation.chains.chain_plan import Places, plan_chains
from nearcast.core.propagation.chains.propagation_cost import LinkModel, PeerModel, chain_delays
from nearcast.experiments.radiator.application import TOPIC, Clients, ReadyMessage
from nearcast.wire.chain_frames import SIGNATURE_BYTES, encode_chain
from nearcast.wire.encoding.content_codings import ENCODING, Encoded
from nearcast.wire.mqtt import plain_publish, topic_field, user_properties

Encoder = Callable[[bytes], Encoded | None]
SEGMENT_BYTES, TCP_IP_BYTES = 1_460, 40
ORDER_EVERY_S = 10.0
_SIGNATURE = bytes(SIGNATURE_BYTES)
_CHAIN_TOPIC = "$me/chain"


class EncodedMessage(Struct, frozen=True):
    """A message that is ready, with its encoded payload."""

    ready: float
    payload: bytes
    coding: str
    sent: NDArray[np.float64]

    @property
    def frame(self) -> bytes:
        """The PUBLISH of a direct delivery."""
        properties = user_properties(((ENCODING, self.coding),)) if self.coding else b""
        return plain_publish(topic_field(TOPIC), properties, self.payload, True)


class Propagation(Struct, frozen=True):
    """How messages are propagated."""

    percent: float = 0.0
    """The share of all clients in a chain; 0: directly to each."""
    degree: int = 1
    six_hosts: bool = False


class RunResult(Struct, frozen=True):
    """What a run cost, and when its bytes were sent."""

    messages: int
    application_bytes: int
    """Payloads, and for chains their signatures and addresses."""
    wire_bytes: int
    """All of it in MQTT, TCP and IP."""
    pushes: int
    mean_lag_s: float
    ends: float
    busy: NDArray[np.float64]
    """When the link began and ended each message."""
    sizes: NDArray[np.float64]

    @property
    def mean_rate(self) -> float:
        """Application bytes a second, while there was something to send."""
        return self.application_bytes / self.ends

    def over_time(self, every_s: float) -> list[float]:
        """Return application bytes a second, in steps."""
        edges = np.arange(0.0, self.ends + every_s, every_s)
        sent = np.zeros(len(edges))
        for (begin, end), size in zip(self.busy, self.sizes, strict=True):
            shares = np.clip((edges - begin) / max(end - begin, 1e-9), 0.0, 1.0)
            sent += shares * size
        return [float(each) for each in np.diff(sent) / every_s]


def encoded_messages(ready: Sequence[ReadyMessage], encode: Encoder) -> list[EncodedMessage]:
    """Return the messages with their payloads encoded, once each."""
    found = []
    for message in ready:
        encoded = encode(message.payload)
        payload = message.payload if encoded is None else encoded.payload
        coding = "" if encoded is None else encoded.name
        found.append(EncodedMessage(message.ready, payload, coding, message.sent))
    return found


def run_propagation(
    messages: Sequence[EncodedMessage],
    clients: Clients,
    how: Propagation,
    link: LinkModel,
    peer: PeerModel,
) -> RunResult:
    """Propagate messages, each to all clients."""
    return run_degrees(messages, clients, how, (how.degree,), link, peer)[how.degree]


def run_degrees(
    messages: Sequence[EncodedMessage],
    clients: Clients,
    how: Propagation,
    degrees: Sequence[int],
    link: LinkModel,
    peer: PeerModel,
) -> dict[int, RunResult]:
    """Propagate messages, each to all clients; return the results by degree.

    Chains of all degrees have the same members and frames of the same sizes: only the delays among
    peers differ.
    """
    free, application, wire, pushes = 0.0, 0, 0, 0
    lags = dict.fromkeys(degrees, 0.0)
    busy, sizes = [], []
    order, ordered_at = None, -np.inf
    for number, message in enumerate(messages, 1):
        if how.percent and message.ready - ordered_at >= ORDER_EVERY_S:
            order, ordered_at = clients.peers(message.ready).order(), message.ready
        cost = _direct(message, clients, degrees) if order is None else _chained(
            number, message, clients, how, degrees, order, peer
        )  # fmt: skip
        begin = max(free, message.ready)
        free = begin + link.busy_s(cost.pushes, cost.application)
        # On average a push leaves when half of the message's time on the link is over.
        pushed = (begin + free) / 2
        for degree, delay_s in zip(degrees, cost.mean_delays_s, strict=True):
            lags[degree] += float(np.sum(pushed + delay_s - message.sent))
        application += cost.application
        wire += cost.wire
        pushes += cost.pushes
        busy.append((begin, free))
        sizes.append(cost.application)
    count = sum(len(message.sent) for message in messages)
    spans, bytes_sent = np.array(busy), np.array(sizes)
    return {
        degree: RunResult(count, application, wire, pushes, lag / count, free, spans, bytes_sent)
        for degree, lag in lags.items()
    }


class _Cost(Struct, frozen=True):
    """What one message costs."""

    pushes: int
    application: int
    wire: int
    mean_delays_s: Sequence[float]
    """From its push until a recipient has it, on average, by degree."""


def _direct(message: EncodedMessage, clients: Clients, degrees: Sequence[int]) -> _Cost:
    count, on_the_wire = len(clients), _on_the_wire(len(message.frame))
    return _Cost(count, count * len(message.payload), count * on_the_wire, [0.0] * len(degrees))


def _chained(
    number: int,
    message: EncodedMessage,
    clients: Clients,
    how: Propagation,
    degrees: Sequence[int],
    order: Places,
    peer: PeerModel,
) -> _Cost:
    # Coded payloads name their coding in front; topic and properties are of the wire.
    content = message.frame
    addresses = clients.on_six_hosts if how.six_hosts else clients.addresses
    application = wire = 0
    delays = [0.0] * len(degrees)
    known: dict[tuple[int, int], list[float]] = {}
    """Delays by degree, by the length of a chain and the size of its push: few differ."""
    chains = plan_chains(clients.peers(message.ready), how.percent, order)
    for chain in chains:
        members = [addresses[place] for place in chain.tolist()]
        push = encode_chain(ChainMessage(number, content, members, degrees[0], _SIGNATURE))
        frame = plain_publish(topic_field(_CHAIN_TOPIC), b"", push, True)
        application += len(push) - len(content) + len(message.payload)
        wire += _on_the_wire(len(frame))
        within = known.get((len(chain), len(push)))
        if within is None:
            size = len(push) + TCP_IP_BYTES
            within = known[len(chain), len(push)] = [
                float(chain_delays(len(chain), degree).seconds(peer, size).sum())
                for degree in degrees
            ]
        delays = [delay + more for delay, more in zip(delays, within, strict=True)]
    return _Cost(len(chains), application, wire, [each / len(clients) for each in delays])


def _on_the_wire(size: int) -> int:
    return size + ceil(size / SEGMENT_BYTES) * TCP_IP_BYTES
