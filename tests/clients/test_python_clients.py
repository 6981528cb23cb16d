"""paho-mqtt and aiomqtt against a broker process: transports, sessions, wills, users."""

import asyncio
import queue
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from tests.support.broker_process import BrokerProcess
from tests.support.clients.raw_client import fresh

WAIT_S = 30.0
VERSIONS = {"3.1": paho.MQTTv31, "3.1.1": paho.MQTTv311, "5": paho.MQTTv5}


class Paho:
    """A paho client whose messages can be waited for."""

    def __init__(
        self,
        port: int,
        version: str = "5",
        *,
        name: str = "",
        keep: bool = False,
        transport: str = "tcp",
        trust: Path | None = None,
        user: tuple[str, str] | None = None,
        will: tuple[str, str] | None = None,
    ) -> None:
        five = version == "5"
        clean = {} if five else {"clean_session": not keep}
        self.messages: queue.Queue[tuple[str, str, int, bool]] = queue.Queue()
        self.connected: queue.Queue[tuple[paho.ConnectFlags, ReasonCode]] = queue.Queue()
        self._subscribed: queue.Queue[object] = queue.Queue()
        self.client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=name or fresh("paho-"),
            protocol=VERSIONS[version],
            transport=transport,
            **clean,
        )
        self.client.on_message = lambda _client, _data, message: self.messages.put(
            (message.topic, message.payload.decode(), message.qos, message.retain)
        )
        self.client.on_connect = lambda *given: self.connected.put((given[2], given[3]))
        self.client.on_subscribe = lambda *given: self._subscribed.put(given[3])
        if trust is not None:
            self.client.tls_set(str(trust))
        if user is not None:
            self.client.username_pw_set(*user)
        if will is not None:
            self.client.will_set(*will, qos=1)
        options: dict[str, object] = {}
        if five:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 60 if keep else 0
            options = {"properties": properties, "clean_start": not keep}
        self.client.connect("127.0.0.1", port, **options)
        self.client.loop_start()
        flags, self.reason = self.connected.get(timeout=WAIT_S)
        self.session_present = flags.session_present

    def subscribe(self, topic: str, qos: int) -> None:
        self.client.subscribe(topic, qos)
        self._subscribed.get(timeout=WAIT_S)

    def publish(self, topic: str, text: str, qos: int, *, retain: bool = False) -> None:
        self.client.publish(topic, text, qos, retain).wait_for_publish(WAIT_S)

    def next(self) -> tuple[str, str, int, bool]:
        return self.messages.get(timeout=WAIT_S)

    def die(self) -> None:
        """Vanish without a word."""
        self.client.loop_stop()
        self.client.socket().close()
        self.client._reset_sockets()

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()
        # It leaves the sockets that it wakes itself up with to the garbage collector.
        self.client._reset_sockets()


@contextmanager
def connected(port: int, version: str = "5", **options: object) -> Iterator[Paho]:
    client = Paho(port, version, **options)  # type: ignore[arg-type]
    try:
        yield client
    finally:
        client.stop()


@pytest.mark.parametrize("transport", ["mqtt", "mqtts", "ws", "wss"])
@pytest.mark.parametrize("version", VERSIONS)
def test_paho_exchanges_messages_over_every_transport(
    broker: BrokerProcess, certificate: Path, transport: str, version: str
) -> None:
    where = fresh("python/")
    with connected(
        broker.ports[transport],
        version,
        transport="websockets" if transport.startswith("ws") else "tcp",
        trust=certificate if transport in ("mqtts", "wss") else None,
    ) as client:
        client.subscribe(where, 2)
        for qos in range(3):
            client.publish(where, f"message {qos}", qos)
            assert client.next() == (where, f"message {qos}", qos, False)


@pytest.mark.parametrize("version", VERSIONS)
def test_paho_takes_its_session_up_again(broker: BrokerProcess, version: str) -> None:
    where, name = fresh("python/"), fresh("paho-kept-")
    with connected(broker.port, version, name=name, keep=True) as client:
        client.subscribe(where, 2)
    with connected(broker.port) as other:
        for number in range(5):
            other.publish(where, str(number), 2)
    with connected(broker.port, version, name=name, keep=True) as client:
        # Version 3.1 cannot say so.
        assert client.session_present or version == "3.1"
        assert [client.next()[1] for _ in range(5)] == list("01234")


@pytest.mark.parametrize("version", VERSIONS)
def test_paho_leaves_a_will_and_what_is_retained(broker: BrokerProcess, version: str) -> None:
    where = fresh("python/")
    with connected(broker.port, version) as watcher:
        watcher.publish(f"{where}/kept", "kept", 1, retain=True)
        watcher.subscribe(f"{where}/#", 2)
        assert watcher.next() == (f"{where}/kept", "kept", 1, True)
        Paho(broker.port, version, will=(f"{where}/will", "gone")).die()
        assert watcher.next() == (f"{where}/will", "gone", 1, False)
        watcher.publish(f"{where}/kept", "", 1, retain=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_paho_is_let_in_with_the_right_password_only(broker: BrokerProcess, version: str) -> None:
    with connected(broker.port, version, name="ann", user=("ann", "secret")) as client:
        assert not client.reason.is_failure
    with connected(broker.port, version, name="ann", user=("ann", "wrong")) as client:
        assert client.reason.is_failure


@pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])
def test_aiomqtt_exchanges_messages(
    broker: BrokerProcess, version: aiomqtt.ProtocolVersion
) -> None:
    where = fresh("python/")

    async def exchange() -> list[tuple[str, bytes, int, bool]]:
        found = []
        options = {"port": broker.port, "protocol": version}
        async with aiomqtt.Client("127.0.0.1", **options) as client:
            await client.publish(f"{where}/kept", b"kept", 1, retain=True)
            await client.subscribe(f"{where}/#", 2)
            for qos in range(3):
                await client.publish(f"{where}/{qos}", b"%d" % qos, qos)
            async for message in client.messages:
                found.append((str(message.topic), message.payload, message.qos, message.retain))
                if len(found) == 4:
                    break
            await client.publish(f"{where}/kept", b"", 1, retain=True)
        return found

    found = asyncio.run(asyncio.wait_for(exchange(), WAIT_S))
    assert found == [
        (f"{where}/kept", b"kept", 1, True),
        *((f"{where}/{qos}", b"%d" % qos, qos, False) for qos in range(3)),
    ]


def test_aiomqtt_speaks_tls_and_names_its_user(broker: BrokerProcess, certificate: Path) -> None:
    where = fresh("python/")

    async def exchange(password: str) -> bytes:
        async with aiomqtt.Client(
            "127.0.0.1",
            broker.ports["mqtts"],
            username="ann",
            password=password,
            identifier="ann",
            protocol=aiomqtt.ProtocolVersion.V5,
            tls_context=ssl.create_default_context(cafile=str(certificate)),
        ) as client:
            await client.subscribe(where, 1)
            await client.publish(where, b"safe", 1)
            return bytes((await anext(aiter(client.messages))).payload)

    assert asyncio.run(asyncio.wait_for(exchange("secret"), WAIT_S)) == b"safe"
    with pytest.raises(aiomqtt.MqttError):
        asyncio.run(asyncio.wait_for(exchange("wrong"), WAIT_S))
