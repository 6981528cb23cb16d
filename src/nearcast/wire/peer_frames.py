"""What peers and a broker say to each other on a peer's port, and what a broker tells peers.

A connection begins with one byte that says what follows: a challenge of the broker, or the greeting
of a peer that wants to pass messages on. Sizes are fixed, so nothing is read beyond them.
"""

import ipaddress
from hashlib import sha256

import msgspec
from msgspec import Struct

from nearcast.core.propagation.chains.chain_message import ADDRESS_BYTES
from nearcast.wire.encoding.errors import DecodingError

CHALLENGE, GREETING = b"\x01", b"\x02"
NONCE_BYTES = KEY_BYTES = PROOF_BYTES = 32
SIGNATURE_BYTES = 64
HINT_BYTES = 8
CREDENTIAL_BYTES = ADDRESS_BYTES + KEY_BYTES + SIGNATURE_BYTES
PEER_TOPIC, CHAIN_TOPIC = "$me/peer", "$me/chain"
LARGEST_FRAME = 2 << 20
"""The largest chain message, encrypted, between peers."""


class Credential(Struct, frozen=True):
    """The broker's word that whoever has a key is at an address."""

    address: bytes
    key: bytes
    signature: bytes

    def encode(self) -> bytes:
        """Return it as bytes."""
        return self.address + self.key + self.signature


class PeerNews(Struct, frozen=True, omit_defaults=True):
    """What a broker tells a client that offered an address, as JSON on `$me/peer`."""

    token: str = ""
    """The secret with which it answers the challenge, in hexadecimal."""
    broker_key: str = ""
    """With which the broker signs chains and credentials; from now on it is a peer."""
    credential: str = ""
    address: str = ""
    first_number: int = 0
    """Chains with lower numbers are older than this peer."""
    refused: str = ""
    """Why it does not become a peer."""


_NEWS = msgspec.json.Decoder(PeerNews)


def read_news(payload: bytes) -> PeerNews:
    """Return what a broker told; raise `DecodingError` if it cannot be read."""
    try:
        return _NEWS.decode(payload)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise DecodingError(f"the broker told a peer something unknown: {error}") from None


def token_hint(token: bytes) -> bytes:
    """Return what a nonce begins with, so that a peer knows which of its tokens is asked for."""
    return sha256(b"nearcast token" + token).digest()[:HINT_BYTES]


def credential_bytes(address: bytes, key: bytes) -> bytes:
    """Return what a broker signs of a credential."""
    return b"nearcast peer" + address + key


def decode_credential(data: bytes) -> Credential:
    """Return the credential in some bytes."""
    if len(data) != CREDENTIAL_BYTES:
        raise DecodingError(f"a credential has {CREDENTIAL_BYTES} bytes, not {len(data)}")
    key_end = ADDRESS_BYTES + KEY_BYTES
    return Credential(data[:ADDRESS_BYTES], data[ADDRESS_BYTES:key_end], data[key_end:])


def parse_peer_address(text: str) -> bytes:
    """Return the 6 bytes of `HOST:PORT`; raise `ValueError` if it is no IPv4 address and port."""
    host, port = split_offer(text)
    try:
        packed = ipaddress.IPv4Address("127.0.0.1" if host == "localhost" else host).packed
    except ValueError:
        raise ValueError(f"{host!r} is no IPv4 address, such as 192.0.2.7") from None
    return packed + port.to_bytes(2, "big")


def split_offer(text: str) -> tuple[str, int]:
    """Return the host and the port of `HOST:PORT`; raise `ValueError` if it has another form."""
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port[:6]) < 65_536:
        raise ValueError(f"{text[:100]!r} is no host and port, such as 192.0.2.7:4711")
    return host[:255], int(port)


def host_and_port(address: bytes) -> tuple[str, int]:
    """Return the host and the port of an address of 6 bytes."""
    return str(ipaddress.IPv4Address(address[:4])), int.from_bytes(address[4:], "big")
