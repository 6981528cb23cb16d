"""Where a broker listens, as its users need to know it."""

from collections.abc import Mapping

from msgspec import Struct

# What stands for all addresses of a machine is none to connect to.
_REACHED = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class Addresses(Struct, frozen=True):
    """The addresses of a broker that runs."""

    host: str
    mqtt_port: int | None
    """The port for MQTT on TCP, if it listens there."""
    listeners: Mapping[str, str]
    """By protocol, in words."""
    api: str | None
    """The page of the HTTP API."""

    @property
    def url(self) -> str:
        """Where a client on this machine connects."""
        host = _REACHED.get(self.host, self.host)
        return (
            f"mqtt://[{host}]:{self.mqtt_port}"
            if ":" in host
            else f"mqtt://{host}:{self.mqtt_port}"
        )
