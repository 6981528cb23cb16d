"""The options for the broker's address and the credentials of a command.

A command with a parameter `broker: BrokerOptions` and the decorator `with_broker` has them all.
"""

import inspect
import secrets
import ssl
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from nearcast.client.api.node import Node
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
    client_id: str | None

    def node(self, verb: str, **others: object) -> Node:
        """Return the node of a command, not connected yet; invalid options end the command."""
        return self.node_with(self.client_options(verb, **others))

    def node_with(self, options: ClientOptions) -> Node:
        """Return a node with these options, not connected yet; invalid ones end the command."""
        made = self.connection(options)
        return Node(str(made.address), made.options, made.behaviour)

    def client_options(self, verb: str, **others: object) -> ClientOptions:
        """Return options with the client id that the user gave, or one for this verb."""
        return client_options(self.client_id, verb, **others)

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


def with_broker(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command have the options of a broker in place of its parameter `broker`."""
    signature = inspect.signature(command, eval_str=True)
    options = inspect.signature(_broker_options, eval_str=True).parameters
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += options.values() if name == "broker" else [parameter]

    @wraps(command)
    def with_options(**given: object) -> None:
        values = {name: given.pop(name) for name in options}
        command(**given, broker=_broker_options(**values))  # type: ignore[arg-type]

    vars(with_options)["__signature__"] = signature.replace(parameters=parameters)
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options


def _broker_options(
    *,
    url: UrlOption = None,
    host: HostOption = None,
    port: PortOption = None,
    user: UserOption = None,
    password_file: PasswordFileOption = None,
    ca_file: AuthorityOption = None,
    client_id: IdOption = None,
) -> BrokerOptions:
    return BrokerOptions(url, host, port, user, password_file, ca_file, client_id)
