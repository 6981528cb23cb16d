"""Requests of an operator over the control socket: forget, sessions, disconnect, what waits."""

import asyncio
import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from nearcast.broker.operations.broker_load import BrokerLoad, LoadSample
from nearcast.broker.operations.control import Ask
from nearcast.broker.operations.explanations.waiting_copies import waiting_copies
from nearcast.broker.operations.session_table import SessionTable, SessionUse, SortKey, user_of
from nearcast.broker.sessions.session import Session
from nearcast.logs import log_event
from nearcast.wire.mqtt import ReasonCode

if TYPE_CHECKING:
    from nearcast.broker.server import Server

MOST_SESSIONS = 1_000
"""The most sessions in one answer."""
LONGEST_INTERVAL_S = 30.0
LONGEST_REASON = 1_000
DISCONNECTED_AT_ONCE = 200
"""The most clients that are disconnected in one tick."""

log = logging.getLogger("nearcast.broker")


class SessionReport(Struct, frozen=True):
    """The load of a broker, and the sessions that use most."""

    load: BrokerLoad
    sessions: list[SessionUse]


class Disconnected(Struct, frozen=True):
    """Who was disconnected."""

    clients: list[str]
    """Those who were connected."""
    ended: list[str]
    """Those whose sessions have ended."""


class OperatorRequests:
    """Answers the requests of an operator."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    def answers(self) -> dict[str, Ask]:
        """The handler of each request."""
        return {
            "forget": self._forget,
            "sessions": self._sessions,
            "disconnect": self._disconnect,
            "dictionaries": self._dictionaries,
            "waiting": self._waiting,
        }

    async def _waiting(self, about: Mapping[str, object]) -> object:
        """Return the copies of an event that wait for a node."""
        event, node, publisher = (about.get(name) for name in ("event", "node", "publisher"))
        if not isinstance(event, str) or not isinstance(node, str):
            raise ValueError("an event and a node are needed")
        if publisher is not None and not isinstance(publisher, str):
            raise ValueError("a publisher is the name of a node")
        hub = self._server.hub
        now = self._server.now()
        return to_builtins(waiting_copies(hub.sessions, hub.engine, event, node, publisher, now))

    async def _dictionaries(self, about: Mapping[str, object]) -> object:
        """Use the dictionaries that were trained."""
        return self._server.load_dictionaries()

    async def _forget(self, about: Mapping[str, object]) -> object:
        node = about.get("node")
        if not isinstance(node, str) or not node:
            raise ValueError("whom to forget is the name of a node")
        return await self._server.forget(node)

    async def _sessions(self, about: Mapping[str, object]) -> object:
        sort = about.get("sort", SortKey.CPU)
        if sort not in list(SortKey):
            raise ValueError(f"sessions are sorted by one of {', '.join(SortKey)}")
        most = int(_number(about, "most", 50, 1, MOST_SESSIONS))
        interval_s = _number(about, "interval_s", 1.0, 0.01, LONGEST_INTERVAL_S)
        before = LoadSample(self._server)
        table = SessionTable(self._server.hub.sessions)
        sessions = await table.top(SortKey(str(sort)), most, interval_s)
        load = LoadSample(self._server).load_since(before)
        return to_builtins(SessionReport(load, sessions))

    async def _disconnect(self, about: Mapping[str, object]) -> object:
        client, user = about.get("client"), about.get("user")
        reason = about.get("reason", "disconnected by the operator")
        if not isinstance(reason, str) or len(reason) > LONGEST_REASON or not reason.isprintable():
            raise ValueError(f"a reason is up to {LONGEST_REASON} printable characters")
        end_session = about.get("end_session") is True
        sessions = self._server.hub.sessions
        if isinstance(client, str) and user is None:
            chosen = [sessions[client]] if client in sessions else []
            if any(map(_is_of_broker, chosen)):
                raise ValueError(f"{client} is a part of the broker")
        elif isinstance(user, str) and client is None:
            owned = [each for each in sessions.values() if user_of(each) == user]
            chosen = [each for each in owned if not _is_of_broker(each)]
        else:
            raise ValueError("whom to disconnect is a client or a user")
        return to_builtins(await self._end(chosen, reason, end_session))

    async def _end(self, chosen: list[Session], reason: str, end_session: bool) -> Disconnected:
        """Disconnect clients, a limited number in each tick."""
        hub, done = self._server.hub, Disconnected([], [])
        for start in range(0, len(chosen), DISCONNECTED_AT_ONCE):
            for session in chosen[start : start + DISCONNECTED_AT_ONCE]:
                client_id, connection = session.client_id, session.connection
                if hub.sessions.get(client_id) is not session:
                    continue  # it ended meanwhile
                if connection is not None and not connection.closing:
                    hub.close(connection, ReasonCode.ADMINISTRATIVE_ACTION, reason)
                    hub.state.counters["disconnected_by_operator"] += 1
                    done.clients.append(client_id)
                    log_event(
                        log, logging.INFO, "client disconnected by the operator",
                        client=client_id, user=user_of(session), why=reason,
                    )  # fmt: skip
                if end_session:
                    hub.lifecycle.end(session, self._server.now())
                    done.ended.append(client_id)
            if end_session:
                await self._server.commit()
            else:
                self._server.soon()
                await asyncio.sleep(0)
        return done


def _is_of_broker(session: Session) -> bool:
    """Whether a session belongs to a part of the broker, or to the pipeline."""
    connection, owner = session.connection, session.owner
    if connection is not None and connection.trusted is not None:
        return True
    return owner is not None and owner.is_broker


def _number(
    about: Mapping[str, object], name: str, default: float, least: float, most: float
) -> float:
    value = about.get(name, default)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not least <= value <= most
    ):
        raise ValueError(f"{name} is a number from {least:g} to {most:g}")
    return value
