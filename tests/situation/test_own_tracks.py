"""A phone with OwnTracks: what it sends is understood, and everything else changes nothing."""

import json

import pytest

from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5, Will
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker

# As the apps send them: numbers of both kinds, nested things, names that mean nothing to us.
START = {
    "_type": "location", "BSSID": "b0:f2:8:45:94:33", "SSID": "home", "_id": "5fe2a1c4",
    "acc": 13, "alt": 18, "batt": 87, "bs": 1, "conn": "w", "created_at": 1763213400,
    "lat": 53.3498053, "lon": -6.2603097, "m": 1, "t": "u", "tid": "JA", "topic": "x",
    "tst": 1763213398, "vac": 3, "vel": 0, "inregions": ["home"], "inrids": ["6da9cf"],
}  # fmt: skip
DRIVING = {
    "_type": "location", "acc": 5, "batt": 84, "conn": "m", "cog": 182, "lat": 53.3421,
    "lon": -6.2611, "tid": "JA", "tst": 1763214001, "vel": 47, "t": "p", "p": 101.325,
}  # fmt: skip
WAYPOINT = {
    "_type": "waypoint", "desc": "office", "lat": 51.5, "lon": -0.12, "rad": 150,
    "tst": 1763200000, "rid": "4e1faa",
}  # fmt: skip
TRANSITION = {
    "_type": "transition", "wtst": 1763200000, "lat": 51.5, "lon": -0.12, "tst": 1763214100,
    "acc": 9, "tid": "JA", "event": "enter", "desc": "office", "t": "c",
}  # fmt: skip
LWT = {"_type": "lwt", "tst": 1763213390}
STEPS = {"_type": "steps", "tst": 1763214200, "steps": 4200, "from": 1763200000, "to": 1763214200}


class Phone:
    """A phone, and somebody who watches its user."""

    def __init__(self, broker: RunningBroker, version: int = MQTT_3_1_1) -> None:
        self.user = fresh("jane")
        self.topic = f"owntracks/{self.user}/pixel"
        will = Will(self.topic, json.dumps(LWT).encode(), 1, False)
        self.talker = Talker(broker, f"{self.user}~pixel", version, clean=True, will=will)
        self.watcher = Talker(broker)

    def sends(self, message: object, retain: bool = True) -> None:
        """As the app does: QoS 1, locations retained."""
        payload = message if isinstance(message, bytes) else json.dumps(message).encode()
        assert not self.talker.sends(self.topic, payload, 1, retain).failed

    def position(self) -> bytes | None:
        return self._read("position")

    def context(self) -> dict[str, object]:
        return dict(json.loads(self._read("context") or b"{}"))

    def _read(self, what: str) -> bytes | None:
        topic = f"$node/{self.user}/{what}"
        self.watcher.subscribes(topic)
        found = [message.payload for message in self.watcher.gets() if message.topic == topic]
        self.watcher.client.unsubscribe(topic)
        return found[-1] if found else None


@pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])
def test_a_day_with_a_phone_is_understood(broker: RunningBroker, version: int) -> None:
    phone = Phone(broker, version)

    phone.sends(START)
    assert phone.position() == b"53.3498053,-6.2603097"
    context = phone.context()
    assert context["batt"] == 87
    assert context["inregions"] == ["home"]
    assert not {"_type", "lat", "lon"} & context.keys()

    phone.sends(DRIVING)
    assert phone.position() == b"53.3421,-6.2611"
    context = phone.context()
    assert (context["vel"], context["conn"], context["batt"]) == (47, "m", 84)
    assert context["SSID"] == "home", "what a later message leaves out stays"

    for other in (WAYPOINT, TRANSITION, STEPS, LWT):
        phone.sends(other, retain=False)
    assert phone.position() == b"53.3421,-6.2611"
    assert phone.context() == context


def test_its_messages_are_ordinary_events_too(broker: RunningBroker) -> None:
    phone = Phone(broker)
    reader = Talker(broker)
    reader.subscribes(f"owntracks/{phone.user}/#")
    filtering = Talker(broker)
    filtering.wants("owntracks/+/pixel", where=f"vel > 40 AND publisher.node = '{phone.user}'")

    for message in (START, DRIVING, WAYPOINT):
        phone.sends(message, retain=False)
    phone.sends(b"not { json")

    came = reader.payloads()
    assert came[:3] == [json.dumps(m).encode() for m in (START, DRIVING, WAYPOINT)]
    assert came[3] == b"not { json"
    assert filtering.payloads() == [json.dumps(DRIVING).encode()]


def test_an_event_that_is_a_fix_is_where_the_fix_is(broker: RunningBroker) -> None:
    phone = Phone(broker)
    near = Talker(broker)
    near.wants(f"owntracks/{phone.user}/pixel", from_="circle:53.3421,-6.2611,50")

    phone.sends(START, retain=False)
    phone.sends(DRIVING, retain=False)

    assert near.payloads() == [json.dumps(DRIVING).encode()]


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b'{"_type": "location", "lat": 53.3, "lon": ',
        b'\xff\xfe{"_type": "location"}',
        b"[1, 2]",
        b'"location"',
        b'{"_type": "location"}',
        b'{"_type": "location", "lat": 53.3}',
        b'{"_type": "location", "lat": "53.3", "lon": "-6.2"}',
        b'{"_type": "location", "lat": 91.0, "lon": 0}',
        b'{"_type": "location", "lat": 53.0, "lon": -181}',
        b'{"_type": "location", "lat": null, "lon": null}',
        b'{"_type": "location", "lat": true, "lon": false}',
        b'{"_type": "location", "lat": NaN, "lon": 0}',
        b'{"_type": "location", "lat": 1e999, "lon": 0}',
        b'{"_type": "Location", "lat": 1, "lon": 1}',
        b'{"lat": 1, "lon": 1}',
        b'{"_type": "encrypted", "data": "AAAA"}',
        b'{"_type": "location", "lat": 1, "lon": 1, "x": ' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"_type": "location", "lat": 1, "lon": 1, "x": "' + b"y" * 70_000 + b'"}',
    ],
)
def test_what_is_broken_changes_nothing_and_is_acknowledged(
    broker: RunningBroker, broken: bytes
) -> None:
    phone = Phone(broker)
    phone.sends(START)

    phone.sends(broken, retain=False)

    assert phone.position() == b"53.3498053,-6.2603097"
    assert phone.context()["batt"] == 87


def test_rights_cannot_be_taken_by_a_phone(broker: RunningBroker) -> None:
    phone = Phone(broker)

    phone.sends({**START, "rank": 1, "position": [0, 0]})

    assert phone.position() == b"53.3498053,-6.2603097"
    assert not {"rank", "position"} & (phone.context().keys() - {"position"})


def test_a_phone_speaks_for_its_own_user_only(broker: RunningBroker) -> None:
    phone, stranger = Phone(broker), Talker(broker)
    phone.sends(START)

    assert not stranger.sends(phone.topic, json.dumps(DRIVING).encode()).failed

    assert phone.position() == b"53.3498053,-6.2603097"


@pytest.mark.parametrize("topic", ["owntracks/USER", "owntracks/USER/a/event", "owntracks//USER"])
def test_topics_of_another_form_change_nothing(broker: RunningBroker, topic: str) -> None:
    phone = Phone(broker)

    phone.talker.sends(topic.replace("USER", phone.user), json.dumps(START).encode())

    assert phone.position() is None


def test_the_last_will_of_a_phone_is_an_event_and_leaves_its_user_where_it_was(
    broker: RunningBroker,
) -> None:
    phone, reader = Phone(broker), Talker(broker)
    phone.sends(START)
    reader.subscribes(phone.topic)
    reader.gets()

    broker.lose(phone.talker.client)

    assert reader.payloads() == [json.dumps(LWT).encode()]
    assert phone.position() == b"53.3498053,-6.2603097"


def test_a_user_with_a_difficult_name_is_percent_encoded(broker: RunningBroker) -> None:
    user = fresh("jane doe/é%")
    phone = Talker(broker, user)
    encoded = user.replace("%", "%25").replace("/", "%2F").replace(" ", "%20")
    encoded = encoded.replace("é", "%C3%A9")
    watcher = Talker(broker)

    phone.sends(f"owntracks/{encoded}/pixel", json.dumps(START).encode())

    watcher.subscribes(f"$node/{encoded}/position")
    assert watcher.payloads() == [b"53.3498053,-6.2603097"]


@pytest.mark.parametrize("qos", [0, 1])
def test_a_fix_just_beyond_the_antimeridian_is_on_it(broker: RunningBroker, qos: int) -> None:
    phone = Phone(broker)
    phone.sends({**START, "lat": 66.0, "lon": 180.00000000000006})
    assert phone.position() == b"66,180"

    phone.talker.sends("$me/position", b"-90.0000000005,-180.00000000000006", qos)
    assert phone.position() == b"-90,-180"

    phone.talker.sends("$me/position", b"0,180.00000001", qos)
    assert phone.position() == b"-90,-180"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"{", "no JSON"),
        (b"[1]", "_type"),
        ({"lat": 1, "lon": 2}, "_type"),
        ({"_type": "encrypted", "data": "x"}, "encrypted"),
        ({**DRIVING, "lat": 91}, "90"),
        ({"_type": "location"}, "location"),
    ],
)
def test_who_sends_a_message_that_is_ignored_is_told(
    broker: RunningBroker, message: object, why: str
) -> None:
    phone = Phone(broker)
    phone.talker.subscribes("$me/errors")
    phone.sends(message)
    (told,) = phone.talker.errors()
    assert told["topic"] == phone.topic
    assert "changes no position" in told["warning"]
    assert why == "location" or why in told["warning"]
    # The next one comes no sooner than in a minute.
    phone.sends(message)
    assert phone.talker.errors() == []


def test_messages_that_are_not_about_positions_are_ignored_without_a_word(
    broker: RunningBroker,
) -> None:
    phone = Phone(broker)
    phone.talker.subscribes("$me/errors")
    for message in (WAYPOINT, TRANSITION, LWT, STEPS, START, b""):
        phone.sends(message)
    assert phone.talker.errors() == []


def test_who_may_not_say_where_somebody_is_is_told(broker: RunningBroker) -> None:
    stranger, user = Talker(broker), fresh("jane")
    stranger.subscribes("$me/errors")
    stranger.sends(f"owntracks/{user}/pixel", json.dumps(START).encode())
    (told,) = stranger.errors()
    assert f"may not say where '{user}' is" in told["warning"]
    assert f"client id {user}" in told["warning"]
