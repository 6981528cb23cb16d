"""A real client against a real server on a free port."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from msgspec.structs import replace
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from nearcast.broker.config.settings import Limits, ListenSection, Settings
from nearcast.broker.server import HELD_BYTES, HELD_MOST_BYTES, LITTLE_BYTES, Server
from nearcast.store import Store
from tests.support.waiting import until

WAIT_S = 10.0
ON_FREE_PORTS = Settings(listen=ListenSection(mqtt_port=0, ws_port=0))


class Running:
    """A server in a thread of its own."""

    def __init__(self, limits: Limits | None = None, store: Store | None = None) -> None:
        self.loop = asyncio.new_event_loop()
        self.server = Server(replace(ON_FREE_PORTS, limits=limits or Limits()), store)
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self.server.start())

    def _run(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)  # type: ignore[arg-type]

    def stop(self) -> None:
        self._run(self.server.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_S)
        self.loop.close()


class Client:
    """A paho client whose messages can be waited for."""

    def __init__(
        self,
        port: int,
        name: str,
        version: int = 5,
        keep: bool = False,
        will: tuple[str, str] | None = None,
    ) -> None:
        protocol = {3: paho.MQTTv31, 4: paho.MQTTv311, 5: paho.MQTTv5}[version]
        clean = {} if version == 5 else {"clean_session": not keep}
        self.paho = paho.Client(
            paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=protocol, **clean
        )
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.done: queue.Queue[object] = queue.Queue()
        self.connected: queue.Queue[object] = queue.Queue()
        self.gone: queue.Queue[object] = queue.Queue()
        self.paho.on_message = lambda _client, _data, message: self.messages.put(message)
        self.paho.on_subscribe = lambda *args: self.done.put(args[3])
        self.paho.on_connect = lambda *args: self.connected.put(args[2])
        self.paho.on_disconnect = lambda *args: self.gone.put(args[3])
        if will is not None:
            self.paho.will_set(*will, qos=1)
        properties = None
        if version == 5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 60 if keep else 0
        start = {"clean_start": not keep} if version == 5 else {}
        self.paho.connect("127.0.0.1", port, properties=properties, **start)
        self.paho.loop_start()
        self.flags = self.connected.get(timeout=WAIT_S)

    def subscribe(self, topic: str, **options: int | bool) -> object:
        if self.paho.protocol == paho.MQTTv5:
            self.paho.subscribe(topic, options=SubscribeOptions(**{"qos": 2, **options}))
        else:
            self.paho.subscribe(topic, qos=int(options.get("qos", 2)))
        return self.done.get(timeout=WAIT_S)

    def publish(self, topic: str, payload: str, **options: object) -> None:
        info = self.paho.publish(topic, payload, **options)
        info.wait_for_publish(WAIT_S)

    def next(self) -> tuple[str, str, int, bool]:
        message = self.messages.get(timeout=WAIT_S)
        return message.topic, message.payload.decode(), message.qos, message.retain

    def stop(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()
        # It leaves the two sockets it wakes itself up with to the garbage collector.
        self.paho._reset_sockets()


@pytest.fixture
def server() -> Iterator[Running]:
    running = Running()
    yield running
    running.stop()


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_published_arrives_in_order(server: Running, version: int, qos: int) -> None:
    sub, pub = Client(server.server.port, "sub", version), Client(server.server.port, "pub")
    sub.subscribe("a/+", qos=2)
    for i in range(20):
        pub.publish("a/b", str(i), qos=qos)
    assert [sub.next() for _ in range(20)] == [("a/b", str(i), qos, False) for i in range(20)]
    sub.stop()
    pub.stop()


def test_a_client_that_was_away_gets_what_it_missed(server: Running) -> None:
    port = server.server.port
    sub, pub = Client(port, "sub", keep=True), Client(port, "pub")
    sub.subscribe("news", qos=1)
    sub.stop()
    for i in range(5):
        pub.publish("news", str(i), qos=2)
    pub.publish("news", "lost", qos=0)
    back = Client(port, "sub", keep=True)
    assert back.flags.session_present  # type: ignore[attr-defined]
    assert [back.next()[:3] for _ in range(5)] == [("news", str(i), 1) for i in range(5)]
    pub.publish("news", "last", qos=0)
    assert back.next()[1] == "last"
    back.stop()
    pub.stop()


def test_retained_messages_come_with_the_subscription_and_can_be_removed(server: Running) -> None:
    port = server.server.port
    pub, sub = Client(port, "pub"), Client(port, "sub")
    pub.publish("state", "on", qos=1, retain=True)
    sub.subscribe("state")
    assert sub.next() == ("state", "on", 1, True)
    sub.subscribe("state")
    assert sub.next()[1] == "on"
    sub.subscribe("state", retainHandling=2)
    pub.publish("state", "off", qos=1, retain=True)
    assert sub.next() == ("state", "off", 1, False)
    pub.publish("state", "", qos=1, retain=True)
    assert sub.next()[1] == ""
    late = Client(port, "late")
    late.subscribe("state")
    pub.publish("state", "end", qos=1)
    assert late.next()[1] == "end"
    for client in (pub, sub, late):
        client.stop()


def test_a_will_is_sent_when_a_client_dies_and_not_when_it_says_goodbye(server: Running) -> None:
    port = server.server.port
    watcher = Client(port, "watcher")
    watcher.subscribe("wills/#")
    polite = Client(port, "polite", will=("wills/polite", "gone"))
    polite.stop()
    dying = Client(port, "dying", will=("wills/dying", "dead"))
    assert dying.paho.socket() is not None
    dying.paho.socket().close()
    assert watcher.next()[:2] == ("wills/dying", "dead")
    dying.stop()
    watcher.stop()


def test_no_local_and_user_properties_are_kept(server: Running) -> None:
    port = server.server.port
    both, other = Client(port, "both"), Client(port, "other")
    both.subscribe("chat", noLocal=True)
    both.publish("chat", "mine", qos=1)
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = [("a", "1"), ("b", "2"), ("a", "3")]
    other.publish("chat", "theirs", qos=1, properties=properties)
    message = both.messages.get(timeout=WAIT_S)
    assert message.payload == b"theirs"
    assert message.properties.UserProperty == [("a", "1"), ("b", "2"), ("a", "3")]
    both.stop()
    other.stop()


def test_a_second_connection_takes_over_the_session(server: Running) -> None:
    port = server.server.port
    first = Client(port, "same")
    second = Client(port, "same")
    assert str(first.gone.get(timeout=WAIT_S)) == "Session taken over"
    first.stop()
    second.stop()


def test_broken_bytes_close_one_connection_and_no_other(server: Running) -> None:
    port = server.server.port
    good = Client(port, "good")
    good.subscribe("x")

    async def abuse() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\xff" * 1000)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    assert asyncio.run(abuse()) == b""
    good.publish("x", "still here", qos=1)
    assert good.next()[1] == "still here"
    good.stop()


def test_a_client_that_sends_too_fast_is_heard_later_and_nothing_is_lost() -> None:
    running = Running(Limits(messages_per_s=200.0))
    try:
        quick, slow = Client(running.server.port, "quick"), Client(running.server.port, "slow")
        slow.subscribe("a")
        for number in range(300):
            quick.paho.publish("a", str(number))
        paced = False
        got: list[int] = []
        while len(got) < 300:
            paced = paced or running.server.statistics()["paced_links"] > 0
            got.append(int(slow.messages.get(timeout=WAIT_S).payload))
        assert paced
        assert got == list(range(300))
        quick.stop()
        slow.stop()
    finally:
        running.stop()


def test_while_the_disk_lags_who_sends_much_waits_and_others_do_not(tmp_path: Path) -> None:
    running = Running(store=Store(tmp_path, ON_FREE_PORTS.node.name))
    try:
        port = running.server.port
        much, little, ear = (Client(port, name) for name in ("much", "little", "ear"))
        ear.subscribe("a", qos=0)
        lag(running, HELD_BYTES + 1)
        much.paho.publish("a", "x" * 2 * LITTLE_BYTES)
        assert len(ear.next()[1]) == 2 * LITTLE_BYTES
        until(lambda: running.server.statistics()["paused_links"] == 1, "it is paused")
        much.paho.publish("a", "later")
        for number in range(10):
            little.publish("a", str(number))
            assert ear.next()[1] == str(number)
        assert running.server.statistics()["paused_links"] == 1
        lag(running, -HELD_BYTES - 1)
        assert ear.next()[1] == "later"
        lag(running, HELD_MOST_BYTES + 1)
        little.publish("a", "last")
        until(lambda: running.server.statistics()["paused_links"] == 1, "it is paused")
        lag(running, -HELD_MOST_BYTES - 1)
        for client in (much, little, ear):
            client.stop()
    finally:
        running.stop()


def lag(running: Running, size: int) -> None:
    """Let so many more bytes wait for the disk."""
    writer = running.server._store_writer
    assert writer is not None
    with writer._lock:
        writer.waiting_bytes += size
