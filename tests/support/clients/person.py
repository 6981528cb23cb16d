"""A client of MQTT 5 as anybody would write one."""

import threading

from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from nearcast.core.model.geometry.position import Position
from tests.support.waiting import WAIT_S

METRE = 1.0 / 111_320.0
"""In degrees of latitude, well enough."""


class Person:
    """A client of MQTT 5, as anybody would write one."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.got: list[MQTTMessage] = []
        self._client = Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTv5)
        self._client.on_message = lambda client, data, message: self.got.append(message)
        connected = threading.Event()
        self._client.on_connect = lambda *_: connected.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert connected.wait(WAIT_S)

    def subscribe(self, *filters: str, **properties: str) -> None:
        done = threading.Event()
        self._client.on_subscribe = lambda *_: done.set()
        self._client.subscribe(
            [(each, SubscribeOptions(qos=2)) for each in filters],
            properties=_carrying(PacketTypes.SUBSCRIBE, properties),
        )
        assert done.wait(WAIT_S)

    def publish(self, subject: str, payload: str, **properties: str) -> None:
        carried = _carrying(PacketTypes.PUBLISH, properties)
        sent = self._client.publish(subject, payload, qos=2, properties=carried)
        sent.wait_for_publish(WAIT_S)
        assert sent.is_published()

    def move(self, at: Position) -> None:
        self.publish("$me/position", f"{at.lat},{at.lon}")

    def leave(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def _carrying(kind: int, own: dict[str, str]) -> Properties:
    properties = Properties(kind)
    for name, value in own.items():
        properties.UserProperty = (name.replace("_", "-"), value)
    return properties
