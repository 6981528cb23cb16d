"""Addresses and credentials of brokers.

A running broker writes its address to its directory, and keeps a token there; a process that can
read both may hand rows over. A broker elsewhere needs its URL, and the name and password of a
superuser.
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
    """A broker, and how to find and authenticate to it.

    Without a `url` its directory has the address, the token and the certificate; `ca_file` names
    other authorities to trust.
    """

    data: str
    broker: str
    url: str = ""
    user: str = ""
    password_file: str = ""
    ca_file: str = ""


class BrokerAccess(Struct, frozen=True):
    """The current address of a broker, and the credentials for it."""

    host: str
    port: int
    secure: bool
    user: str
    password: bytes
    certificate: str = ""
    """The certificate that identifies this broker; if empty, authorities are trusted."""


class _AddressFile(Struct, frozen=True):
    """The address file in a broker's directory."""

    host: str
    port: int
    scheme: str = "mqtt"
    machine: str = ""
    everywhere: bool = False
    """True if it listens on all addresses of its machine; `host` is for local use."""
    certificate: str = ""


def entrance_of(place: BrokerAddress) -> BrokerAccess:
    """Return the current address of a broker; raises `OSError` while none is known."""
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
    """The host name to reach a broker from this machine."""
    everywhere = announced.everywhere or announced.host in ANY_HOST
    if everywhere and announced.machine not in ("", socket.gethostname()):
        return announced.machine
    return "localhost" if announced.host in ANY_HOST else announced.host


def trusting(entrance: BrokerAccess, ca_file: str = "") -> ssl.SSLContext:
    """Return the TLS context for a broker.

    It trusts the authorities in a file, or the broker's own certificate from its directory. The
    writer of that directory can write everything that the pipeline reads, so the host name is not
    checked.
    """
    if ca_file or not entrance.certificate:
        return ssl.create_default_context(cafile=ca_file or None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=entrance.certificate)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
