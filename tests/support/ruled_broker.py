"""A broker with rules, users and places, and somebody who has a password there."""

import json
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from nearcast.broker.auth.credentials.passwords import hashed
from nearcast.broker.auth.credentials.users_file import Account, write_users
from nearcast.broker.config import settings
from nearcast.wire.mqtt import MQTT_5, Connect
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker


def square(side: float) -> bytes:
    """A place as GeoJSON, with a corner where the Greenwich meridian meets the equator."""
    ring = [[0, 0], [side, 0], [side, side], [0, side], [0, 0]]
    return json.dumps({"type": "Polygon", "coordinates": [ring]}).encode()


SQUARE = square(1)


def broker_with(
    data: Path,
    rules: str,
    places: Mapping[str, bytes] | None = None,
    adaptation: settings.AdaptationSection | None = None,
) -> RunningBroker:
    """A broker with these rules, for anyone and for user root, a superuser, and user warden."""
    if places:
        first = RunningBroker(data=data)
        for place, shape in places.items():
            assert not Talker(first).sends(f"$place/{place}", shape).failed
        first.stop()
    (data / "rules.toml").write_text(rules)
    secret = hashed(b"secret")
    accounts = [Account("root", secret, superuser=True), Account("warden", secret)]
    write_users(data / "users.toml", {each.name: each for each in accounts})
    doors = settings.AuthSection(rules=str(data / "rules.toml"))
    adapted = settings.AdaptationSection() if adaptation is None else adaptation
    return RunningBroker(replace(settings.Settings(), doors=doors, adaptation=adapted), data)


def user(broker: RunningBroker, name: str) -> Talker:
    """Somebody with a password."""
    talker = Talker.__new__(Talker)
    client = broker.open()
    client.connect(Connect(name, username=name, password=b"secret"))
    talker.client, talker.version, talker.name, talker.node = client, MQTT_5, name, name
    talker.reason = None
    return talker
