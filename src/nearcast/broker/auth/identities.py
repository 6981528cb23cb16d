"""Peers, identities, and the results of authentication."""

from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from msgspec import Struct

from nearcast.wire.mqtt import ReasonCode

IpAddress = IPv4Address | IPv6Address


class Peer(Struct, frozen=True, gc=False):
    """The other end of a connection; the certificate's common name is one that TLS verified.

    It is None without a certificate, and empty if there is one that names nobody.
    """

    address: str
    loopback: bool
    certificate_name: str | None = None


class TokenTopics(Struct, frozen=True, forbid_unknown_fields=True):
    """Topics that a token's claim `acl` lists: for publishing, for subscribing, for both."""

    pub: tuple[str, ...] = ()
    sub: tuple[str, ...] = ()
    all: tuple[str, ...] = ()


class Identity(Struct, frozen=True, gc=False):
    """Someone who is in: `user` is None for the anonymous, `expires` is when a token ends."""

    user: str | None = None
    superuser: bool = False
    expires: float | None = None
    listed: TokenTopics | None = None
    """If there is one, nothing that it does not list is allowed."""
    account: int = 0
    """Changes when the user's entry in the users file does; 0 without one."""
    superuser_by_token: bool = False


class Admitted(Struct, frozen=True, gc=False):
    """The client may connect; an empty client id is replaced by `Admission.client_id_for`."""

    identity: Identity
    client_id: str
    peer: Peer


class AuthRefusal(Struct, frozen=True):
    """The client may not connect; `why`, for it and the log, gives nothing away."""

    reason: ReasonCode
    why: str


class CredentialCheck(Struct, frozen=True):
    """Work that takes tens of milliseconds and megabytes: run it once, in a worker thread."""

    run: Callable[[], Admitted | AuthRefusal]
    user: str = ""
    """The user name that the client claims."""
    address: str = ""
    """Where from, as attempts are counted."""


@lru_cache(1_024)
def parse_address(text: str) -> IpAddress | None:
    """Return an internet address, an IPv4 one that came in IPv6 as itself; None if it is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return address.ipv4_mapped or address
    return address


def counted_as(text: str) -> str:
    """Return the address that attempts are counted under: one subscriber has a whole IPv6 /64."""
    address = parse_address(text)
    if isinstance(address, IPv6Address) and not address.is_loopback:
        return str(IPv6Network((int(address) >> 64 << 64, 64)))
    return text if address is None else str(address)
