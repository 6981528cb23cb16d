"""Both ends of a bridge: a mosquitto that can be killed, our broker in a thread, and clients."""

import asyncio
import queue
import threading
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from nearcast.broker.bridge.bridge import Bridge
from nearcast.broker.config.settings import BridgeSection as Section
from nearcast.broker.config.settings import Limits, ListenSection, NodeSection, Settings
from nearcast.broker.server import open_server
from nearcast.client.link.backoff import Backoff
from tests.support.waiting import WAIT_S, until

SOON = Backoff(first_s=0.05, most_s=0.2)


class Bridged:
    """Our broker with a bridge, in a thread of its own."""

    def __init__(
        self, directory: Path, section: Section, limits: Limits | None = None, port: int = 0
    ) -> None:
        settings = Settings(
            node=NodeSection(data=str(directory / "data")),
            listen=ListenSection(mqtt_port=port, ws_port=-1),
            limits=limits or Limits(),
            bridge=section,
        )
        self.server = open_server(settings)
        self.bridge = Bridge(self.server, SOON)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self.server.start())
        try:
            self._run(self.bridge.start())
        except BaseException:
            self.stop()
            raise

    @property
    def port(self) -> int:
        return self.server.port

    def figure(self, name: str) -> float:
        return self.bridge.statistics()[name]

    def wait_until_online(self) -> "Bridged":
        until(lambda: self.bridge.online, "the bridge is online")
        return self

    def stop(self) -> None:
        self._run(self.bridge.stop())
        self._run(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.close()

    def _run(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)  # type: ignore[arg-type]


class Paho(paho.Client):  # type: ignore[misc]  # paho has no types
    """A client that goes on with its messages of QoS 2 however often it tries to come back.

    At the second attempt paho 2.1 forgets that a message was received there, and publishes it
    again: after its end was lost with a broker that was killed, it would come twice.
    """

    def _messages_reconnect_reset_out(self) -> None:
        released = [
            each for each in self._out_messages.values() if each.state == paho.mqtt_ms_resend_pubrel
        ]
        super()._messages_reconnect_reset_out()
        for message in released:
            message.state = paho.mqtt_ms_resend_pubrel


class Client:
    """A paho client whose messages can be waited for."""

    def __init__(self, port: int, name: str, *, keep: bool = False) -> None:
        self.paho = Paho(paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5)
        self.paho.reconnect_delay_set(0.05, 0.2)
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.granted: queue.Queue[object] = queue.Queue()
        self.answers: queue.Queue[int] = queue.Queue()
        self.paho.on_message = lambda _client, _data, message: self.messages.put(message)
        self.paho.on_subscribe = lambda *args: self.granted.put(args[3])
        self.paho.on_connect = lambda *args: self.answers.put(args[3].value)
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3_600 if keep else 0
        self.paho.connect("127.0.0.1", port, properties=properties, clean_start=not keep)
        self.paho.loop_start()
        self.answer = self.answers.get(timeout=WAIT_S)

    def subscribe(self, topic: str, *properties: tuple[str, str], **options: bool) -> None:
        told = Properties(PacketTypes.SUBSCRIBE)
        if properties:
            told.UserProperty = list(properties)
        wanted = SubscribeOptions(qos=2, **options)
        self.paho.subscribe(topic, options=wanted, properties=told)
        self.granted.get(timeout=WAIT_S)

    def publish(
        self,
        topic: str,
        payload: str,
        qos: int = 1,
        *properties: tuple[str, str],
        retain: bool = False,
    ) -> None:
        told = Properties(PacketTypes.PUBLISH)
        if properties:
            told.UserProperty = list(properties)
        info = self.paho.publish(topic, payload, qos, retain, told)
        info.wait_for_publish(WAIT_S)
        assert info.is_published()

    def next(self) -> paho.MQTTMessage:
        return self.messages.get(timeout=WAIT_S)

    def texts(self, last: str) -> list[str]:
        """What came, as text, up to and without a last one."""
        found: list[str] = []
        while (text := self.next().payload.decode()) != last:
            found.append(text)
        return found

    def stop(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()
        # It leaves the two sockets it wakes itself up with to the garbage collector.
        self.paho._reset_sockets()
