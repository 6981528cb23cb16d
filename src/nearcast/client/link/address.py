"""Server addresses: `mqtt://`, `mqtts://`, `ws://` and `wss://` URLs."""

from urllib.parse import unquote, urlsplit

from msgspec import Struct

from nearcast.client.errors import AddressError

PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 8083, "wss": 8084}
_SECURE = frozenset(("mqtts", "wss"))
_SOCKETS = frozenset(("ws", "wss"))


class Address(Struct, frozen=True):
    """The address of a server, with optional credentials."""

    scheme: str
    host: str
    port: int
    path: str = "/mqtt"
    username: str | None = None
    password: str | None = None

    @property
    def secure(self) -> bool:
        """Whether TLS is used."""
        return self.scheme in _SECURE

    @property
    def websocket(self) -> bool:
        """Whether MQTT is carried in a WebSocket."""
        return self.scheme in _SOCKETS

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path if self.websocket else ''}"


def parse_address(url: str) -> Address:
    """Return the address in a URL, or raise `AddressError`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressError(f"{url}: {error}") from None
    if parts.scheme not in PORTS:
        raise AddressError(f"{url} does not begin with mqtt://, mqtts://, ws:// or wss://")
    if not parts.hostname:
        raise AddressError(f"{url} names no host; write {parts.scheme}://HOST:PORT")
    address = Address(
        parts.scheme,
        parts.hostname,
        PORTS[parts.scheme] if port is None else port,
        username=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    if path in ("", "/"):
        return address
    if not address.websocket:
        raise AddressError(f"{url}: a path belongs to ws:// and wss:// only")
    return Address(
        address.scheme, address.host, address.port, path, address.username, address.password
    )
