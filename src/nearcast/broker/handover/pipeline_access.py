"""Access of the pipeline: a process that can read a broker's directory may hand over results.

The directory has a token, readable by its owner only, and while the broker listens a file with its
address. A client that connects as `$pipeline` with the token is admitted as a part of the broker,
exempt from all rules; no other client may use that name. From other machines a superuser's name and
password do the same.
"""

import asyncio
import hmac
import json
import os
import re
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

from nearcast.broker.auth import Admitted, AuthRefusal, Identity, Peer
from nearcast.store.durable_files import beside, put_in_place, write_whole
from nearcast.wire.handover import ADDRESS_FILE, PUBLISHER, TOKEN_FILE
from nearcast.wire.mqtt import Connect, ReasonCode

PIPELINE = Identity(PUBLISHER, superuser=True)
NEAR = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Loopback addresses for a broker that listens on all addresses."""
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


def read_token(directory: Path) -> str:
    """Return the token in a broker's directory; it is created if missing."""
    path = directory / TOKEN_FILE
    try:
        token = path.read_text().strip()
        if token:
            return token
    except FileNotFoundError:
        pass
    token = secrets.token_urlsafe(32)
    partial = beside(path)
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(descriptor)
    put_in_place(partial, path)
    return token


def admit(connect: Connect, peer: Peer, token: str) -> Admitted | AuthRefusal | None:
    """Decide on a client that connects as the pipeline; None if it does not."""
    node = connect.client_id.partition("~")[0]
    if connect.username != PUBLISHER:
        if node != PUBLISHER:
            return None
        why = f"{PUBLISHER} is a part of this broker; choose another client id"
        return AuthRefusal(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
    given = (connect.password or b"").strip()
    if not token or not hmac.compare_digest(given, token.encode()):
        why = f"{PUBLISHER} comes with the token in the broker's directory"
        return AuthRefusal(ReasonCode.BAD_USER_NAME_OR_PASSWORD, why)
    if node != PUBLISHER or connect.will is not None:
        why = f"{PUBLISHER} has a client id of {PUBLISHER}~PART, and no will"
        return AuthRefusal(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
    return Admitted(PIPELINE, connect.client_id, peer)


def tell_address(
    directory: Path, listeners: Mapping[str, asyncio.Server], certificate: str
) -> None:
    """Write the address of a broker with these listeners to a file where the pipeline finds it."""
    for scheme in ("mqtt", "mqtts"):
        listener = listeners.get(scheme)
        if listener is not None:
            host, port = listener.sockets[0].getsockname()[:2]
            own = certificate if scheme == "mqtts" else ""
            write_address(directory, host, port, scheme, own)
            return


def write_address(
    directory: Path, host: str, port: int, scheme: str = "mqtt", certificate: str = ""
) -> None:
    """Write a broker's address, its machine and its certificate to a file.

    Of a file with several certificates only the first is written, the broker's own; never the key.
    """
    near = NEAR.get(host, host)
    told: dict[str, object] = {"scheme": scheme, "host": near, "port": port}
    told |= {"everywhere": host in NEAR, "machine": socket.gethostname()}
    if certificate:
        found = _CERTIFICATE.search(Path(certificate).read_text())
        told["certificate"] = found[0] if found else ""
    write_whole(directory / ADDRESS_FILE, json.dumps(told).encode() + b"\n")


def remove_address(directory: Path) -> None:
    """Remove the address file."""
    (directory / ADDRESS_FILE).unlink(missing_ok=True)
