"""Where brokers are: what their directories say of them, and how to come in.

A broker that runs says in its directory where it listens, and keeps a token there; whoever can
read both may hand it rows. For one that is elsewhere there is its address, and a superuser's name
and password.
"""

import socket
from pathlib import Path

import msgspec
from msgspec import Struct

from nearcast.client.address import parse_address
from nearcast.store import broker_directory
from nearcast.wire.handover import ADDRESS_FILE, PUBLISHER, TOKEN_FILE

ANY_HOST = frozenset(("0.0.0.0", "::", ""))


class PlaceError(ValueError):
    """An address that rows cannot be handed to."""


class Place(Struct, frozen=True):
    """Which broker, and how to find and enter it.

    Without a `url` its directory says where it is and what opens it.
    """

    data: str
    broker: str
    url: str = ""
    user: str = ""
    password_file: str = ""
    ca_file: str = ""


class Entrance(Struct, frozen=True):
    """Where a broker listens now, and who asks to be let in."""

    host: str
    port: int
    secure: bool
    user: str
    password: bytes


class _Told(Struct, frozen=True):
    """What a broker's directory says of its address."""

    host: str
    port: int
    scheme: str = "mqtt"
    machine: str = ""


def entrance_of(place: Place) -> Entrance:
    """Return where a broker listens now; raises `OSError` while nothing says so."""
    if place.url:
        address = parse_address(place.url)
        if address.websocket:
            raise PlaceError(f"{place.url}: rows are handed over by mqtt:// or mqtts://")
        password = (address.password or "").encode()
        if place.password_file:
            password = Path(place.password_file).read_bytes().split(b"\n", 1)[0].strip()
        user = place.user or address.username or ""
        return Entrance(address.host, address.port, address.secure, user, password)
    directory = broker_directory(Path(place.data), place.broker)
    token = (directory / TOKEN_FILE).read_bytes().strip()
    told = msgspec.json.decode((directory / ADDRESS_FILE).read_bytes(), type=_Told)
    host = told.host
    if host in ANY_HOST:
        host = "localhost" if told.machine in ("", socket.gethostname()) else told.machine
    return Entrance(host, told.port, told.scheme == "mqtts", PUBLISHER, token)
