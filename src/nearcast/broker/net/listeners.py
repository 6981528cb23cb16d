"""Listeners: TLS contexts, and MQTT over WebSockets."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from picows import (
    WSListener,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
    ws_create_server,
)

from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.net.links import (
    LINGER_S,
    TcpLink,
    WebSocketLink,
    WebSocketListener,
    is_loopback,
)
from nearcast.broker.net.web_origins import WebOrigins
from nearcast.logs import log_event

if TYPE_CHECKING:
    from nearcast.broker.server import Server

log = logging.getLogger("nearcast.broker")

NO_LISTENER = -1
"""The port of a listener that is left out."""
SUBPROTOCOLS = ("mqtt", "mqttv3.1")
LARGEST_FRAME = 4 << 20
OTHER_FILES = 350
"""Open files that are no MQTT connections: listeners, the store, segments, 200 of HTTP."""


async def start_listeners(server: "Server", listeners: dict[str, asyncio.Server]) -> None:
    """Start the listeners of a server; each is among `listeners` once it is there."""
    listen, within_s = server.settings.listen, server.settings.limits.connect_within_s
    secure, loop = tls_context(listen), asyncio.get_running_loop()
    tcp = ("mqtt", listen.mqtt_port, None), ("mqtts", listen.mqtts_port, secure)
    for name, port, context in tcp:
        if port != NO_LISTENER:
            listeners[name] = await loop.create_server(
                lambda: TcpLink(server), listen.host, port, ssl=context, backlog=1_024,
                ssl_handshake_timeout=None if context is None else within_s,
                ssl_shutdown_timeout=None if context is None else LINGER_S,
            )  # fmt: skip
    web_sockets = ("ws", listen.ws_port, None), ("wss", listen.wss_port, secure)
    for name, port, context in web_sockets:
        if port != NO_LISTENER:
            listeners[name] = await upgrade(
                lambda: WebSocketListener(WebSocketLink(server)),
                listen.host, port, context, within_s, WebOrigins.of(listen),
            )  # fmt: skip
    if not listeners:
        log_event(log, logging.WARNING, "nobody can connect", why="every port is -1")


def tls_context(listen: ListenSection) -> ssl.SSLContext | None:
    """Return the TLS context if a certificate is given; client certificates as configured."""
    if not listen.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(listen.certificate, listen.key or None)
    if listen.client_authority:
        context.load_verify_locations(listen.client_authority)
        required = listen.client_certificate == "required"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def warn_of_strangers(settings: Settings, open_doors: bool) -> None:
    """Log who may connect if there are no users and other machines can reach the broker."""
    listen = settings.listen
    if is_loopback(listen.host) or listen.host == "localhost":
        return
    if open_doors or settings.doors.anonymous == "everywhere":
        what, why = "everyone may connect from anywhere", "there are no users"
    elif not listen.client_authority:
        what = "nobody may connect from another machine"
        why = "there are no users; add one by nearcast user add, or set doors.anonymous"
    else:
        return
    log_event(log, logging.WARNING, what, host=listen.host, why=why)


def possible_connections(wanted: int) -> int:
    """The number of connections that the limit of open files allows; raises it if possible."""
    try:
        import resource
    except ImportError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    needed = wanted + OTHER_FILES
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # With very few files allowed, half of them are for clients.
    return min(wanted, max(1, soft - OTHER_FILES, soft // 2))


async def upgrade(
    make: Callable[[], WSListener],
    host: str,
    port: int,
    context: ssl.SSLContext | None,
    within_s: float,
    names: WebOrigins,
) -> asyncio.Server:
    """Listen for WebSockets; the subprotocol is `mqtt` or none, and the handshake has a time limit.

    Connections from web pages of other origins are refused.
    """

    def answer(request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        under, page = request.headers.get("Host"), request.headers.get("Origin")
        if not names.takes_host(under):
            return _refused(403, "this name is not in the setting listen.hosts")
        if not names.takes_origin(page, under):
            return _refused(403, "this page is not in the setting listen.origins")
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        offers = [name.strip() for name in offered.split(",") if name.strip()]
        chosen = next((name for name in SUBPROTOCOLS if name in offers), None)
        if offers and chosen is None:
            return _refused(400, "this server speaks the WebSocket subprotocol mqtt")
        headers = {"Sec-WebSocket-Protocol": chosen} if chosen else {}
        response = WSUpgradeResponse.create_101_response(extra_headers=headers)
        return WSUpgradeResponseWithListener(response, make())

    return await ws_create_server(
        answer,
        host,
        port,
        ssl=context,
        ssl_handshake_timeout=None if context is None else within_s,
        ssl_shutdown_timeout=None if context is None else LINGER_S,
        websocket_handshake_timeout=within_s,
        max_frame_size=LARGEST_FRAME,
        enable_auto_pong=False,
        use_aiofastnet=False,
    )


def _refused(status: int, why: str) -> WSUpgradeResponseWithListener:
    refusal = WSUpgradeResponse.create_error_response(status, f"{why}\n".encode())
    return WSUpgradeResponseWithListener(refusal, None)
