"""The addresses of a broker, for its users."""

from collections.abc import Mapping

from msgspec import Struct

# Wildcard addresses cannot be connected to.
_REACHED = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class Addresses(Struct, frozen=True):
    """The addresses of a running broker."""

    host: str
    mqtt_port: int | None
    """The port for MQTT on TCP, if it listens there."""
    listeners: Mapping[str, str]
    """Addresses as text, by protocol."""
    api: str | None
    """The URL of the HTTP API page."""

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        host = _REACHED.get(self.host, self.host)
        return (
            f"mqtt://[{host}]:{self.mqtt_port}"
            if ":" in host
            else f"mqtt://{host}:{self.mqtt_port}"
        )
