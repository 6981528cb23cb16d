"""Host names under which browsers may reach a broker, and origins that may connect to it.

A page of another site can make a browser connect to this machine: directly, or under a name of that
site that resolves to it (DNS rebinding). Both show in the headers: `Origin` is the page, `Host` the
name. An address in `Host` cannot have been rebound, and `localhost` always resolves to this
machine; other names must be in the settings.
"""

import re
from ipaddress import ip_address

from msgspec import Struct

from nearcast.broker.config.settings import ListenSection

LOOPBACK = "localhost"
ANY = "*"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+)(?::[0-9]{1,5})?")


class WebOrigins(Struct, frozen=True):
    """The accepted `Host` and `Origin` headers."""

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, listen: ListenSection) -> "WebOrigins":
        """Return the names in the settings, including the addresses listened on."""
        names = (*listen.hosts, listen.host, listen.http_host)
        return cls(
            frozenset(filter(None, (_name(each) for each in names))),
            frozenset(each.rstrip("/").lower() for each in listen.origins),
        )

    def takes_host(self, host: str | None) -> bool:
        """Return whether a request with this `Host` is accepted; browsers always send one."""
        if host is None:
            return True
        name = _name(host)
        return name is not None and (
            name == LOOPBACK or _is_address(name) or name in self.hosts or ANY in self.hosts
        )

    def takes_origin(self, origin: str | None, host: str | None) -> bool:
        """Return whether a page may connect to the broker: of the same host, or listed.

        Clients other than browsers send no origin.
        """
        if origin is None or ANY in self.origins or origin.lower() in self.origins:
            return True
        scheme, _, rest = origin.partition("://")
        page = _name(rest)
        return (
            scheme.lower() in ("http", "https")
            and page is not None
            and host is not None
            and page == _name(host)
        )


def _name(host: str) -> str | None:
    """The name or address in HOST or HOST:PORT, the same for all loopback; None if invalid."""
    found = _HOST.fullmatch(host)
    if found is None:
        return None
    name = found[1].strip("[]").rstrip(".").lower()
    return LOOPBACK if _is_address(name) and ip_address(name).is_loopback else name or None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
