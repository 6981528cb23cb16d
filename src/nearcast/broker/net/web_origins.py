"""Names under which browsers may reach a broker, and pages that may talk to it.

A page of another site can make a browser connect to this machine: directly, or under a name of
that site which leads here (DNS rebinding). Both show in what the browser sends: `Origin` is the
page, `Host` the name. An address in `Host` cannot have been rebound, and `localhost` leads nowhere
else; other names are those that the settings list.
"""

import re
from ipaddress import ip_address

from msgspec import Struct

from nearcast.broker.config.settings import ListenSection

LOOPBACK = "localhost"
ANY = "*"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+)(?::[0-9]{1,5})?")


class WebOrigins(Struct, frozen=True):
    """Which `Host` and which `Origin` are taken."""

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, listen: ListenSection) -> "WebOrigins":
        """The names that settings list, and those that they listen on."""
        names = (*listen.hosts, listen.host, listen.http_host)
        return cls(
            frozenset(filter(None, (_name(each) for each in names))),
            frozenset(each.rstrip("/").lower() for each in listen.origins),
        )

    def takes_host(self, host: str | None) -> bool:
        """Decide whether a request under this `Host` may be answered; no browser leaves it out."""
        if host is None:
            return True
        name = _name(host)
        return name is not None and (
            name == LOOPBACK or _is_address(name) or name in self.hosts or ANY in self.hosts
        )

    def takes_origin(self, origin: str | None, host: str | None) -> bool:
        """Decide whether a page may talk to the broker: of the same host, or listed.

        Clients that are no browsers send no origin.
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
    """The name or address in HOST or HOST:PORT, one for all of loopback; None if it is none."""
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
