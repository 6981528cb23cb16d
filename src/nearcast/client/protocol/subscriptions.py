"""The subscriptions that a server granted, sent again if it loses the session."""

from itertools import zip_longest

from msgspec import Struct

from nearcast.client.protocol.outgoing import OutgoingRequest
from nearcast.wire.mqtt import Properties, ReasonCode, Subscribe, TopicFilter, Unsubscribe, encode


class GrantedSubscription(Struct, frozen=True):
    """A granted filter, with the properties of its SUBSCRIBE."""

    wanted: TopicFilter
    properties: Properties
    packet: int
    """The number of its SUBSCRIBE: filters of one are renewed in one, so that none gets larger."""


class ClientSubscriptions:
    """Granted subscriptions by filter; subscribing again replaces one."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._granted: dict[str, GrantedSubscription] = {}
        self._packets = 0

    def __len__(self) -> int:
        return len(self._granted)

    def answered(self, packet: Subscribe, codes: tuple[ReasonCode, ...]) -> None:
        """Keep the granted filters; a refusal leaves an older subscription unchanged."""
        self._packets += 1
        for wanted, code in zip(packet.filters, codes, strict=True):
            if not code.failed:
                self._granted.pop(wanted.filter, None)
                self._granted[wanted.filter] = GrantedSubscription(
                    wanted, packet.properties, self._packets
                )

    def renewed(self, packet: Subscribe, codes: tuple[ReasonCode, ...]) -> None:
        """Drop the filters that were not granted again."""
        for wanted, code in zip(packet.filters, codes, strict=True):
            held = self._granted.get(wanted.filter)
            if code.failed and held is not None and held.wanted is wanted:
                del self._granted[wanted.filter]

    def ended(self, packet: Unsubscribe, codes: tuple[ReasonCode, ...]) -> None:
        """Drop the filters that were unsubscribed; without codes (MQTT 3), all of them."""
        for topic_filter, code in zip_longest(packet.filters, codes):
            if code is None or not code.failed:
                self._granted.pop(topic_filter, None)

    def forget(self) -> None:
        """Drop all: the server has, and they are not to be renewed."""
        self._granted.clear()

    def renewals(self) -> list[OutgoingRequest]:
        """Return the SUBSCRIBEs that renew all of them."""
        packets: dict[int, list[GrantedSubscription]] = {}
        for granted in self._granted.values():
            packets.setdefault(granted.packet, []).append(granted)
        requests = []
        for together in packets.values():
            filters = tuple(granted.wanted for granted in together)
            packet = Subscribe(1, filters, together[0].properties)
            requests.append(OutgoingRequest(0, packet, len(encode(packet, self._version))))
        return requests
