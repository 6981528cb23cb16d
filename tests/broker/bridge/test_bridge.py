"""A bridge to a real mosquitto: what crosses, what does not, and what a crash may cost."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from nearcast.broker.config.configuration import ConfigurationError
from nearcast.broker.config.settings import BridgeSection as Section
from tests.broker.bridge.bridge_parts import Bridged, Client
from tests.support.mosquitto import MOSQUITTO, Mosquitto, free_port
from tests.support.waiting import WAIT_S, until

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")


class Town:
    """A mosquitto, our broker and the clients of both, all stopped at the end."""

    def __init__(self, directory: Path, ends: ExitStack) -> None:
        self.directory = directory
        self._ends = ends
        self.mosquitto = Mosquitto(directory / "mosquitto")
        ends.callback(self.mosquitto.stop)

    def section(self, **others: object) -> Section:
        return Section(url=self.mosquitto.url, name="town", **others)  # type: ignore[arg-type]

    def up(self, **others: object) -> Bridged:
        """Start our broker, and wait until it has met mosquitto."""
        running = Bridged(self.directory, self.section(**others)).wait_until_online()
        self._ends.callback(running.stop)
        return running

    def client(self, port: int, name: str, *, keep: bool = False) -> Client:
        client = Client(port, name, keep=keep)
        self._ends.callback(client.stop)
        return client

    def there(self, name: str, *, keep: bool = False) -> Client:
        return self.client(self.mosquitto.port, name, keep=keep)


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    with ExitStack() as ends:
        yield Town(tmp_path, ends)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_cross_both_ways_once_and_as_they_are(town: Town, qos: int) -> None:
    ours = town.up()
    here, there = town.client(ours.port, "ours"), town.there("theirs")
    here.subscribe("#")
    there.subscribe("#")
    told = Properties(PacketTypes.PUBLISH)
    told.UserProperty = [("b", "2"), ("a", "1"), ("b", "3")]
    told.ContentType = "text/plain"
    told.ResponseTopic = "answers"
    told.CorrelationData = b"\x00\x01"
    told.PayloadFormatIndicator = 1
    for name, sender in (("from/here", here), ("from/there", there)):
        sender.paho.publish(name, "text", qos, properties=told).wait_for_publish(WAIT_S)
        for receiver in (here, there):
            message = receiver.next()
            assert (message.topic, message.payload, message.qos) == (name, b"text", qos)
            assert message.properties is not None
            properties = message.properties.json()
            assert properties["UserProperty"] == told.UserProperty
            assert properties["ContentType"] == "text/plain"
            assert properties["ResponseTopic"] == "answers"
            assert bytes.fromhex(properties["CorrelationData"]) == b"\x00\x01"
            assert properties["PayloadFormatIndicator"] == 1
    # Had one come twice, it would stand before these.
    here.publish("end", "end", 2)
    assert here.texts("end") == there.texts("end") == []
    assert (ours.figure("in_total"), ours.figure("out_total")) == (1, 2)


def test_only_what_matches_the_patterns_crosses(town: Town) -> None:
    ours = town.up(incoming=("a/#", "both"), outgoing=("b/+", "both"))
    here, there = town.client(ours.port, "ours"), town.there("theirs")
    here.subscribe("#")
    there.subscribe("#")
    for sender, name in ((here, "here"), (there, "there")):
        for topic in ("a/1", "b/1", "b/1/2", "both"):
            sender.publish(topic, f"{name} {topic}")
    there.publish("a/1", "end")
    here.publish("b/1", "end")
    own_here = [f"here {topic}" for topic in ("a/1", "b/1", "b/1/2", "both")]
    own_there = [f"there {topic}" for topic in ("a/1", "b/1", "b/1/2", "both")]
    until(lambda: here.messages.qsize() == 8, "six and two ends are here")
    got = sorted(here.messages.get().payload.decode() for _ in range(8))
    assert got == sorted([*own_here, "there a/1", "there both", "end", "end"])
    until(lambda: there.messages.qsize() == 8, "six and two ends are there")
    got = sorted(there.messages.get().payload.decode() for _ in range(8))
    assert got == sorted([*own_there, "here b/1", "here both", "end", "end"])


def test_what_is_retained_on_either_side_is_on_both(town: Town) -> None:
    town.there("early").publish("theirs", "before", 1, retain=True)
    alone = Bridged(town.directory, Section(url="mqtt://127.0.0.1:1", name="town"))
    town.client(alone.port, "early").publish("ours", "before", 1, retain=True)
    alone.stop()
    ours = town.up()
    here, there = town.client(ours.port, "ours"), town.there("theirs")

    def retained(client: Client, topic: str) -> str | None:
        client.subscribe(topic)
        client.publish(topic + "/none", "", 1)
        client.paho.unsubscribe(topic)
        text = None
        while not client.messages.empty():
            message = client.messages.get()
            text = message.payload.decode() if message.retain else text
        return text

    def settles(client: Client, topic: str, text: str | None) -> None:
        until(lambda: retained(client, topic) == text, f"{topic} is {text}")

    settles(here, "theirs", "before")
    settles(there, "ours", "before")
    town.there("late").publish("theirs", "after", 1, retain=True)
    town.client(ours.port, "late").publish("ours", "", 1, retain=True)
    settles(here, "theirs", "after")
    settles(there, "ours", None)


def test_where_both_retain_something_both_have_ours(town: Town) -> None:
    town.there("early").publish("state", "theirs", 1, retain=True)
    alone = Bridged(town.directory, Section(url="mqtt://127.0.0.1:1", name="town"))
    town.client(alone.port, "early").publish("state", "ours", 1, retain=True)
    alone.stop()
    ours = town.up()
    until(lambda: ours.figure("ignored_total") == 1, "theirs is ignored")
    for port in (ours.port, town.mosquitto.port):
        reader = town.client(port, "reader")
        reader.subscribe("state")
        assert reader.next().payload == b"ours"
    # Later messages are no leftovers.
    town.there("late").publish("state", "newer", 1, retain=True)
    listener = town.client(ours.port, "listener")
    listener.subscribe("state")
    if (first := listener.next().payload) == b"ours":
        first = listener.next().payload
    assert first == b"newer"


def test_what_we_retain_does_not_come_back_from_a_broker_that_forgot_us(town: Town) -> None:
    ours = town.up()
    here = town.client(ours.port, "ours")
    here.publish("state", "on", 1, retain=True)
    until(lambda: ours.figure("out_total") == 1 and not ours.figure("in_flight"), "it is sent")
    here.subscribe("#", ("nc-meta", "1"))
    assert here.next().payload == b"on"
    # As a mosquitto that kept what is retained and lost its sessions.
    there = town.there("nearcast-local")
    there.stop()
    until(lambda: ours.figure("connections_total") == 2, "it came back")
    until(lambda: ours.figure("ignored_total") == 1, "it is known")
    here.publish("end", "end")
    assert here.texts("end") == []


def test_subscriptions_with_filters_and_areas_see_what_comes_in(town: Town) -> None:
    ours = town.up()
    here, there = town.client(ours.port, "ours"), town.there("theirs")
    here.subscribe("traffic/+", ("nc-where", "speed < 20"))
    there.publish("traffic/1", '{"speed": 50}')
    there.publish("traffic/1", '{"speed": 10}')
    message = here.next()
    assert message.payload == b'{"speed": 10}'
    assert message.properties is not None
    told = dict(message.properties.json()["UserProperty"])
    assert told["nc-publisher"] == "bridge-town"
    near = town.client(ours.port, "near")
    near.subscribe("fire", ("nc-from", "circle:53.35,-6.26,1000"))
    there.publish("fire", "far", 1, ("nc-at", "48.2,16.4"))
    there.publish("fire", "near", 1, ("nc-at", "53.351,-6.261"))
    assert near.next().payload == b"near"
    near.publish("$me/position", "53.35,-6.26")
    near.subscribe("news")
    there.publish("news", "not for you", 1, ("nc-to", "circle:48.2,16.4,1000"))
    there.publish("news", "for you", 1, ("nc-to", "circle:53.35,-6.26,1000"))
    assert near.next().payload == b"for you"


def test_a_phone_that_tells_mosquitto_where_it_is_sets_its_context_here(town: Town) -> None:
    ours = town.up()
    here, there = town.client(ours.port, "ours"), town.there("phone")
    here.subscribe("$node/ann/position")
    fix = {"_type": "location", "lat": 53.35, "lon": -6.26, "batt": 80}
    there.publish("owntracks/ann/phone", json.dumps(fix), retain=True)
    assert here.next().payload == b"53.35,-6.26"
    here.subscribe("help/#", ("nc-where", "publisher.batt > 50"))
    ann = town.client(ours.port, "ann")
    ann.publish("help/me", "now")
    assert here.next().payload == b"now"


def test_what_has_a_target_area_stays_here(town: Town) -> None:
    ours = town.up()
    here, there = town.client(ours.port, "ours"), town.there("theirs")
    there.subscribe("news")
    here.publish("news", "for those near", 1, ("nc-to", "circle:53.35,-6.26,1000"))
    here.publish("news", "for all", 1, ("nc-at", "53.35,-6.26"), ("kept", "yes"))
    message = there.next()
    assert message.payload == b"for all"
    assert message.properties is not None
    assert message.properties.json()["UserProperty"] == [("kept", "yes")]


def test_no_client_can_be_the_bridge(town: Town) -> None:
    ours = town.up()
    for name in ("bridge-town", "bridge-town~part"):
        assert town.client(ours.port, name).answer == 0x85
    assert ours.bridge.online
    assert town.client(ours.port, "bridge-village").answer == 0


def test_a_bridge_to_itself_is_refused(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(ConfigurationError, match="is this broker itself"):
        Bridged(tmp_path, Section(url=f"mqtt://localhost:{port}"), port=port)
