"""Checks of every HTTP request: its origin, and for `/api` its credentials.

Users, tokens and limits are those of the broker. As soon as there are users, `/api` needs one;
before, it is open where anonymous clients may connect. `/metrics` and `/healthz` are always open.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct
from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nearcast.broker.auth import Admitted, AuthRefusal, Identity, Peer, node_of
from nearcast.broker.auth.admission import Admission
from nearcast.broker.auth.permissions import ANYTHING, Permissions
from nearcast.broker.net.links import is_loopback
from nearcast.broker.net.web_origins import WebOrigins
from nearcast.console.answers import problem
from nearcast.wire.mqtt import Connect, ReasonCode

ASKER = "nearcast.asker"
"""The key of the client in the scope of a request."""
_STATUS = {
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: 401,
    ReasonCode.CONNECTION_RATE_EXCEEDED: 429,
    ReasonCode.SERVER_UNAVAILABLE: 503,
    ReasonCode.SERVER_BUSY: 503,
}


class Asker(Struct, frozen=True):
    """The client of a request: a node, and its permissions."""

    identity: Identity = Identity()
    node: str = ""
    permissions: Permissions = ANYTHING
    operates: bool = True
    """It may read about the broker itself: a superuser, or any client if there are no users."""


class AdmissionService(Protocol):
    """The part of a broker that checks credentials."""

    @property
    def admission(self) -> Admission:
        """The access control in use."""

    async def admit(self, connect: Connect, peer: Peer) -> Admitted | AuthRefusal:
        """Check credentials, within the limits for passwords."""


class Gate:
    """Passes requests to an application, with the client in their scope."""

    def __init__(self, app: ASGIApp, names: WebOrigins, broker: AdmissionService | None) -> None:
        self._app = app
        self._names = names
        self._broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._foreign(headers)
        if refusal is None and (scope["path"] == "/api" or scope["path"].startswith("/api/")):
            found = await self._asker(scope, headers)
            if isinstance(found, Asker):
                scope[ASKER] = found
            else:
                refusal = found
        following: Callable[..., Awaitable[None]] = self._app if refusal is None else refusal
        await following(scope, receive, send)

    def _foreign(self, headers: Headers) -> Response | None:
        """Refuse requests that a page of another site caused."""
        host, origin = headers.get("host"), headers.get("origin")
        if not self._names.takes_host(host):
            return problem(403, "this name is not in the setting listen.hosts")
        if not self._names.takes_origin(origin, host):
            return problem(403, "this page is not in the setting listen.origins")
        # Embedded content such as an image has no Origin header. A link may be followed.
        if (
            origin is None
            and headers.get("sec-fetch-site") == "cross-site"
            and headers.get("sec-fetch-mode") != "navigate"
        ):
            return problem(403, "another site may not ask this")
        return None

    async def _asker(self, scope: Scope, headers: Headers) -> Asker | Response:
        if self._broker is None:
            return Asker()
        admission = self._broker.admission
        address = scope["client"][0] if scope.get("client") else ""
        peer = Peer(address, is_loopback(address))
        authorization = headers.get("authorization")
        if authorization is None and admission.asks_for_names:
            return _unknown(401, "a user name and a password, or a token, are needed here")
        node = QueryParams(scope["query_string"]).get("as", "")
        connect = _connect(node, authorization)
        if connect is None:
            return _unknown(401, "send Authorization: Basic, or Bearer with a token")
        answer = await self._broker.admit(connect, peer)
        if isinstance(answer, AuthRefusal):
            return _unknown(_STATUS.get(answer.reason, 403), answer.why)
        identity = answer.identity
        client_id = node or admission.client_id_for(identity, "http")
        operates = identity.superuser or not admission.asks_for_names
        permissions = admission.rights(identity, client_id, address)
        return Asker(identity, node_of(client_id), permissions, operates)


def _connect(node: str, authorization: str | None) -> Connect | None:
    """Return the credentials as a CONNECT; None if they cannot be parsed."""
    if authorization is None:
        return Connect(node)
    scheme, _, text = authorization.partition(" ")
    text = text.strip()
    if scheme.lower() == "bearer" and text:
        return Connect(node, password=text.encode())
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return Connect(node, username=user, password=password.encode()) if colon else None


def _unknown(status: int, why: str) -> Response:
    answer = problem(status, why)
    if status == 401:
        answer.headers["WWW-Authenticate"] = 'Basic realm="nearcast", charset="UTF-8"'
    return answer
