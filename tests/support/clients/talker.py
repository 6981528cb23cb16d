"""Someone who talks to a real broker in the words of the situation, in MQTT 5 or 3.1.1.

With MQTT 5 words are user properties; with 3.1.1 they are JSON on topics. A test that uses only
these methods shows the same for both.
"""

import base64
import json
from collections.abc import Mapping

from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    NO_PROPERTIES,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    TopicFilter,
    Will,
)
from tests.support.clients.raw_client import RawClient
from tests.support.running_broker import RunningBroker

VERSIONS = (MQTT_5, MQTT_3_1_1)
METRES_NORTH = 1 / 111_200
"""About so many degrees of latitude are a metre."""

LAT, LON = 53.35, -6.26


def at(metres: float) -> tuple[float, float]:
    """So many metres north of a place."""
    return LAT + metres * METRES_NORTH, LON


def words(**said: str) -> Properties:
    """Words of ours as user properties; `from_` is `nc-from`."""
    pairs = [(f"nc-{name.rstrip('_').replace('_', '-')}", value) for name, value in said.items()]
    return Properties(user_properties=tuple(pairs))


def told(message: Publish) -> dict[str, list[str]]:
    """What a delivery tells of its event, by name."""
    found: dict[str, list[str]] = {}
    for name, value in message.properties.user_properties:
        found.setdefault(name, []).append(value)
    return found


class Talker:
    """One client and its node."""

    def __init__(
        self,
        broker: RunningBroker,
        client_id: str | None = None,
        version: int = MQTT_5,
        *,
        clean: bool = True,
        expiry: int | None = None,
        will: Will | None = None,
    ) -> None:
        self.client: RawClient = broker.client(
            client_id, version=version, clean=clean, expiry=expiry, will=will
        )
        self.version = version
        self.name = self.client.client_id
        self.node = self.name.partition("~")[0]
        self.reason: str | None = None
        """What the broker said last when it refused something."""

    # What it says of itself

    def moves(self, lat: float, lon: float) -> ReasonCode:
        return self.sends("$me/position", f"{lat},{lon}".encode())

    def is_now(self, **attributes: object) -> ReasonCode:
        return self.sends("$me/context", json.dumps(attributes).encode())

    def announces(self, subject: str, to: str) -> ReasonCode:
        return self.sends(f"$me/announcements/{subject}", json.dumps({"to": to}).encode())

    # What it wants

    def wants(self, subject: str, qos: int = 1, **words_of_it: str) -> ReasonCode:
        """Subscribe in the way of its version; `from_` is the area of the publisher."""
        if self.version == MQTT_5:
            return self.subscribes(subject, qos=qos, properties=words(**words_of_it))[0]
        members = {name.rstrip("_"): value for name, value in words_of_it.items()}
        return self.names("wish", subject=subject, qos=qos, **members)

    def names(self, name: str, **members: object) -> ReasonCode:
        """Subscribe under a name."""
        return self.sends(f"$me/subscriptions/{name}", json.dumps(members).encode())

    def subscribes(
        self, *filters: str | TopicFilter, qos: int = 1, properties: Properties = NO_PROPERTIES
    ) -> tuple[ReasonCode, ...]:
        wanted = tuple(TopicFilter(f, qos) if isinstance(f, str) else f for f in filters)
        packet_id = self.client.next_id()
        self.client.send(Subscribe(packet_id, wanted, properties))
        answer = self.client.wait_for(SubAck)
        assert answer.packet_id == packet_id
        self.reason = answer.properties.reason_string
        return answer.reason_codes

    # What it publishes

    def says(
        self,
        subject: str,
        payload: bytes = b"x",
        qos: int = 1,
        retain: bool = False,
        more: Mapping[str, str] | None = None,
        **words_of_it: str,
    ) -> ReasonCode:
        """Publish in the way of its version; `more` are words, too."""
        words_of_it |= more or {}
        if self.version == MQTT_5:
            return self.sends(subject, payload, qos, retain, words(**words_of_it))
        members: dict[str, object] = {"base64": base64.b64encode(payload).decode()}
        members |= words_of_it
        return self.sends(f"$me/publish/{subject}", json.dumps(members).encode(), qos, retain)

    def sends(
        self,
        topic: str,
        payload: bytes = b"",
        qos: int = 1,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> ReasonCode:
        """Publish one message as it is, and return what the broker says of it."""
        if not qos:
            self.client.publish(topic, payload, 0, retain, properties)
            return ReasonCode.SUCCESS
        packet_id = self.client.next_id()
        packet = Publish(topic, payload, qos, retain, packet_id=packet_id)
        self.client.send(packet if properties is NO_PROPERTIES else packet.with_(properties))
        answer = self.client.wait_for(PubAck if qos == 1 else PubRec)
        assert isinstance(answer, PubAck | PubRec)
        assert answer.packet_id == packet_id
        self.reason = answer.properties.reason_string
        return answer.reason_code

    # What it gets

    def gets(self) -> list[Publish]:
        """All messages that the broker has for it now, each acknowledged if it must be."""
        found = []
        for _ in range(2):
            self.client.send(PingReq())
            while not isinstance(packet := self.client.receive(), PingResp):
                if isinstance(packet, Publish):
                    found.append(packet)
                    if packet.qos == 1:
                        self.client.send(PubAck(packet.packet_id))
                    elif packet.qos == 2:
                        self.client.send(PubRec(packet.packet_id))
                elif isinstance(packet, PubRel):
                    self.client.send(PubComp(packet.packet_id))
        return found

    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.gets()]

    def errors(self) -> list[dict[str, str]]:
        """What it was told on `$me/errors`."""
        return [json.loads(m.payload) for m in self.gets() if m.topic == "$me/errors"]
