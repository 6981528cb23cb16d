"""Where brokers are: what their directories say of them, and how to come in.

A broker that runs says in its directory where it listens, and keeps a token there; whoever can
read both may hand it rows. For one that is elsewhere there is its address, and a superuser's name
and password.
"""

import socket
import ssl
from pathlib import Path

import msgspec
from msgspec import Struct

from nearcast.client.link.address import parse_address
from nearcast.pipeline.errors import PipelineInputError
from nearcast.store import broker_directory
from nearcast.wire.handover import ADDRESS_FILE, PUBLISHER, TOKEN_FILE

ANY_HOST = frozenset(("0.0.0.0", "::", ""))


class BrokerAddress(Struct, frozen=True):
    """Which broker, and how to find and enter it.

    Without a `url` its directory says where it is and what opens it, and by which certificate
    it is known; `ca_file` says whom to trust instead.
    """

    data: str
    broker: str
    url: str = ""
    user: str = ""
    password_file: str = ""
    ca_file: str = ""


class BrokerAccess(Struct, frozen=True):
    """Where a broker listens now, and who asks to be let in."""

    host: str
    port: int
    secure: bool
    user: str
    password: bytes
    certificate: str = ""
    """The one certificate that shows that it is this broker; otherwise authorities vouch for it."""


class _AddressFile(Struct, frozen=True):
    """What a broker's directory says of its address."""

    host: str
    port: int
    scheme: str = "mqtt"
    machine: str = ""
    everywhere: bool = False
    """It listens on every address of its machine; `host` is one for the machine itself."""
    certificate: str = ""


def entrance_of(place: BrokerAddress) -> BrokerAccess:
    """Return where a broker listens now; raises `OSError` while nothing says so."""
    if place.url:
        address = parse_address(place.url)
        if address.websocket:
            raise PipelineInputError(f"{place.url}: rows are handed over by mqtt:// or mqtts://")
        password = (address.password or "").encode()
        if place.password_file:
            password = Path(place.password_file).read_bytes().split(b"\n", 1)[0].strip()
        user = place.user or address.username or ""
        return BrokerAccess(address.host, address.port, address.secure, user, password)
    directory = broker_directory(Path(place.data), place.broker)
    token = (directory / TOKEN_FILE).read_bytes().strip()
    announced = msgspec.json.decode((directory / ADDRESS_FILE).read_bytes(), type=_AddressFile)
    secure = announced.scheme == "mqtts"
    return BrokerAccess(
        _host(announced), announced.port, secure, PUBLISHER, token, announced.certificate
    )


def _host(announced: _AddressFile) -> str:
    """How to reach a broker from this machine."""
    everywhere = announced.everywhere or announced.host in ANY_HOST
    if everywhere and announced.machine not in ("", socket.gethostname()):
        return announced.machine
    return "localhost" if announced.host in ANY_HOST else announced.host


def trusting(entrance: BrokerAccess, ca_file: str = "") -> ssl.SSLContext:
    """Return how to speak TLS at an entrance: whom to believe that this is the broker.

    The authorities in a file, or the broker's own certificate if its directory says it: who wrote
    that may write all that the pipeline reads, so that no name needs to be in it.
    """
    if ca_file or not entrance.certificate:
        return ssl.create_default_context(cafile=ca_file or None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=entrance.certificate)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
