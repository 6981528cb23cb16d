"""The options for the broker's address and the credentials of a command."""

import secrets
import ssl
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from nearcast.client.api.options import ClientOptions
from nearcast.client.link.address import parse_address
from nearcast.client.link.connection import ClientConnection, ConnectionOptions

DEFAULT_URL = "mqtt://127.0.0.1:1883"
PART = "~"

UrlOption = Annotated[
    str | None,
    typer.Option(
        help="The broker: mqtt://, mqtts://, ws:// or wss://, as in mqtts://USER:PW@HOST:8883.",
        show_default=DEFAULT_URL,
    ),
]
HostOption = Annotated[
    str | None, typer.Option(help="The broker's host, for MQTT over TCP.", show_default="127.0.0.1")
]
PortOption = Annotated[
    int | None, typer.Option(min=1, max=65_535, help="Its port.", show_default="1883")
]
UserOption = Annotated[str | None, typer.Option(help="Who you are.")]
PasswordFileOption = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="A file whose first line is your password."),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-file", exists=True, dir_okay=False, help="Certificates to trust, for mqtts and wss."
    ),
]
IdOption = Annotated[
    str | None, typer.Option("--id", help="The client id.", show_default="one of its own")
]
MqttOption = Annotated[
    int, typer.Option(min=3, max=5, help="The version of MQTT: 5, 4 (3.1.1) or 3.")
]


class BrokerOptions(Struct, frozen=True):
    """The address of the broker, and the credentials."""

    url: str | None
    host: str | None
    port: int | None
    user: str | None
    password_file: Path | None
    authority: Path | None

    def connection(self, options: ClientOptions) -> ClientConnection:
        """Return a connection that is not open yet; invalid options end the command."""
        tls = None
        if self.authority is not None:
            try:
                tls = ssl.create_default_context(cafile=str(self.authority))
            except ssl.SSLError:
                raise typer.BadParameter(
                    f"{self.authority} holds no certificates", param_hint="--ca-file"
                ) from None
        url = self._url()
        if self.user is not None:
            options = replace(options, username=self.user)
        if options.client_id.startswith(PART):
            # A user may connect as its own node: the command is then a part of that.
            user = self.user or parse_address(url).username
            part = options.client_id
            options = replace(options, client_id=f"{user}{part}" if user else part.lstrip(PART))
        if self.password_file is not None:
            lines = self.password_file.read_bytes().splitlines()
            options = replace(options, password=lines[0] if lines else b"")
        return ClientConnection(url, options, ConnectionOptions(tls=tls))

    def _url(self) -> str:
        if self.url is None:
            host = self.host or "127.0.0.1"
            if ":" in host and not host.startswith("["):
                host = f"[{host}]"
            url = f"mqtt://{host}:{self.port or 1883}"
        elif self.host is not None or self.port is not None:
            raise typer.BadParameter("give --url, or --host and --port", param_hint="--url")
        else:
            url = self.url
        return url


def client_options(client_id: str | None, verb: str, **others: object) -> ClientOptions:
    """Return options with a client id.

    Without one from the user it is a unique part, of a node that `BrokerOptions.connection` adds.
    """
    name = client_id if client_id is not None else f"{PART}{verb}-{secrets.token_hex(4)}"
    return ClientOptions(
        client_id=name,
        # An older session of this id may have left unfinished messages under low packet ids.
        first_packet_id=secrets.randbelow(0xFFFF) + 1,
        **others,  # type: ignore[arg-type]
    )
