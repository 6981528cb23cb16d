"""Peers, identities, and the results of authentication."""

from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from msgspec import Struct

from nearcast.wire.mqtt import ReasonCode

IpAddress = IPv4Address | IPv6Address


class Peer(Struct, frozen=True, gc=False):
    """The peer of a connection, with the certificate's common name as verified by TLS.

    The name is None without a certificate, and empty if the certificate has no usable name.
    """

    address: str
    loopback: bool
    certificate_name: str | None = None


class TokenTopics(Struct, frozen=True, forbid_unknown_fields=True):
    """Topics in a token's claim `acl`: for publishing, for subscribing, for both."""

    pub: tuple[str, ...] = ()
    sub: tuple[str, ...] = ()
    all: tuple[str, ...] = ()


class Identity(Struct, frozen=True, gc=False):
    """An authenticated client: `user` is None if anonymous, `expires` is the end of its token."""

    user: str | None = None
    superuser: bool = False
    expires: float | None = None
    listed: TokenTopics | None = None
    """If set, only the topics in it are allowed."""
    account: int = 0
    """Changes with the user's entry in the users file; 0 without an entry."""
    superuser_by_token: bool = False


class Admitted(Struct, frozen=True, gc=False):
    """The client may connect; an empty client id is replaced by `Admission.client_id_for`."""

    identity: Identity
    client_id: str
    peer: Peer


class AuthRefusal(Struct, frozen=True):
    """The client may not connect; `why`, for the client and the log, discloses no secrets."""

    reason: ReasonCode
    why: str


class CredentialCheck(Struct, frozen=True):
    """A check that takes tens of milliseconds and megabytes: run once, in a worker thread."""

    run: Callable[[], Admitted | AuthRefusal]
    user: str = ""
    """The user name that the client claims."""
    address: str = ""
    """The address under which attempts are counted."""


@lru_cache(1_024)
def parse_address(text: str) -> IpAddress | None:
    """Return an IP address, IPv4-mapped IPv6 as IPv4; None if the text is not an address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or address
    return address


def counted_as(text: str) -> str:
    """Return the address that attempts are counted under: for IPv6 the /64 network."""
    address = parse_address(text)
    if isinstance(address, IPv6Address) and not address.is_loopback:
        return str(IPv6Network((int(address) >> 64 << 64, 64)))
    return text if address is None else str(address)
