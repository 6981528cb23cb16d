"""The HTTP API of a broker, within the permissions of the client.

What a client may not see is answered as if it did not exist.
"""

import asyncio
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request, Response
from msgspec import to_builtins

from nearcast.broker.config.setting_catalog import public
from nearcast.broker.config.settings import Settings
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.operations.explanations.explanation_queue import (
    ExplanationBusyError,
    ExplanationFailedError,
    ExplanationQueue,
)
from nearcast.broker.operations.explanations.explanation_worker import ExplainAnswer
from nearcast.broker.operations.explanations.recent_events import recent_events
from nearcast.broker.operations.explanations.waiting_copies import waiting_copies
from nearcast.broker.operations.metrics import Metrics
from nearcast.broker.server import Server
from nearcast.broker.situation.metadata import time_text
from nearcast.broker.situation.node_list import MOST as MOST_NODES
from nearcast.broker.situation.node_list import USUAL as USUAL_NODES
from nearcast.console.answers import json_answer, problem, while_connected
from nearcast.console.gate import ASKER
from nearcast.console.view import View
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event
from nearcast.core.model.subject import check_pattern
from nearcast.core.model.visibility import SEE_ALL, SEE_IDENTITY
from nearcast.store import UpgradeError

MOST_EVENTS = 200
LOOKED_THROUGH = 20
"""This multiple of the requested number of events is searched for visible ones."""
RETRY_AFTER_S = 5
"""When somebody who asks for an explanation too many is to ask again."""
SYSTEM = "$SYS/broker/#"
NO_LOG = "this broker keeps no log"
UNKNOWN_EVENT = (
    "there is no such event that you may know of; an event is there a second after it was "
    "published, until it is older than log.keep_s"
)


def make_api(
    metrics: Metrics,
    settings: Settings,
    log_directory: Path | None,
    server: Server | None,
    explanations: ExplanationQueue | None,
) -> APIRouter:
    """Return everything under `/api`; the client is in the scope of a request."""
    api = APIRouter(prefix="/api")

    def view_of(request: Request) -> View:
        world = None if server is None else server.hub.engine.matcher.world
        return View(request.scope[ASKER], world)

    # Plain `async def` throughout: FastAPI runs other functions in threads, and the parts that are
    # called belong to the event loop.
    @api.get("/statistics", response_model=dict[str, dict[str, float] | None])
    async def statistics(request: Request) -> Response:
        """The figures of every part; null for a part that gives none."""
        if not view_of(request).asker.permissions.may_subscribe(SYSTEM):
            return problem(403, f"a rule forbids you to read {SYSTEM}")
        return json_answer(metrics.statistics())

    @api.get("/config", response_model=dict[str, dict[str, object]])
    async def configuration(request: Request) -> Response:
        """The settings in force, for superusers; where keys and passwords are kept is left out."""
        if not view_of(request).asker.operates:
            return problem(403, "only superusers may read the settings")
        return json_answer(public(settings))

    @api.get("/events", response_model=list[dict[str, object]])
    async def events(
        request: Request,
        subject: Annotated[str, Query(description="A topic filter.")] = "#",
        most: Annotated[int, Query(ge=1, le=MOST_EVENTS)] = 20,
    ) -> Response:
        """The newest events that you made or could have got: time, subject, publisher, id."""
        if log_directory is None:
            return problem(404, NO_LOG)
        try:
            check_pattern(subject)
        except ModelError as error:
            return problem(400, str(error))
        view = view_of(request)
        try:
            found = await asyncio.to_thread(
                recent_events, log_directory, most * LOOKED_THROUGH, subject
            )
        except UpgradeError as error:
            return problem(500, str(error))
        node = view.asker.node
        told = (each for each in found if not each.people or each.publisher == node)
        shown = [_event(each, view) for each in told if view.could_get(each)]
        return json_answer(shown[:most])

    @api.get("/nodes", response_model=dict[str, object])
    async def nodes(
        request: Request,
        area: Annotated[str | None, Query(alias="in", description="An area.")] = None,
        where: Annotated[str | None, Query(description="A filter over contexts.")] = None,
        near: Annotated[str | None, Query(description="A node, or me: nearest first.")] = None,
        most: Annotated[int, Query(ge=1, le=MOST_NODES)] = USUAL_NODES,
        cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
    ) -> Response:
        """Who is where, as far as you may see: a page of nodes, and how to ask for the next."""
        if server is None:
            return problem(404, "this broker knows no nodes")
        asker = view_of(request).asker
        members = {"in": area, "where": where, "near": near, "cursor": cursor}
        query = {name: value for name, value in members.items() if value is not None}
        try:
            found = server.hub.node_list.answer(
                asker.node, asker.permissions, query | {"most": most}
            )
        except RefusedError as refusal:
            return problem(400, refusal.why)
        return json_answer(found.as_value())

    @api.get("/explain/{event:path}/{node}", response_model=dict[str, object])
    async def explanation(
        event: str,
        node: str,
        request: Request,
        publisher: Annotated[
            str | None, Query(description="Whose event it is, where several have the same id.")
        ] = None,
    ) -> Response:
        """Why a node did or did not get an event; the log is played again, which takes a while.

        Slashes in the id of an event may stay; in the name of a node they are %2F. For another
        node than your own you need the right to its position, identity and attributes, and those
        of the publisher.
        """
        if explanations is None:
            return problem(404, NO_LOG)
        # The parameters are also split at a %2F; in the raw path the last level is the node.
        sent = request.scope["raw_path"].decode("ascii").removeprefix("/api/explain/")
        event, _, node = map(unquote, sent.rpartition("/"))
        view = view_of(request)
        if view.sees(node) != SEE_ALL:
            return problem(403, f"you may not see all of {node!r}")
        try:
            found = await while_connected(
                request, explanations.explain(event, node, publisher, view.asker.node)
            )
        except (ExplanationBusyError, ExplanationFailedError) as error:
            return _later(str(error))
        return Response() if found is None else _explained(event, found, view, server)

    return api


def _explained(event: str, found: ExplainAnswer, view: View, server: Server | None) -> Response:
    if found.status == "ambiguous":
        named = [each for each in found.publishers if view.sees(each) & SEE_IDENTITY]
        return json_answer(
            {"error": f"several have an event {event!r}; add ?publisher=", "publishers": named}, 409
        )
    if found.status == "too new":
        return problem(500, found.problem)
    value = found.value
    publisher, subject = str(value.get("publisher")), str(value.get("subject"))
    if found.status == "unknown" or not view.may_read(publisher, subject):
        return problem(404, UNKNOWN_EVENT)
    if server is not None:
        value["waiting"] = _waiting(server, event, str(value["node"]), publisher, view)
    sees = view.sees(publisher)
    if sees != SEE_ALL and value["node"] != view.asker.node:
        # A decision for another node reveals the position and the attributes of the publisher.
        return problem(403, "you may not see all of the publisher")
    if not sees & SEE_IDENTITY:
        value["publisher"] = None
    if not view.asker.operates:
        # They would reveal how active other clients are.
        del value["seq"]
        if isinstance(later := value["later"], dict):
            value["later"] = {"time": later["time"]}
    return json_answer(value)


def _waiting(
    server: Server, event: str, node: str, publisher: str, view: View
) -> list[dict[str, object]]:
    hub = server.hub
    found = waiting_copies(hub.sessions, hub.engine, event, node, publisher, server.now())
    copies: list[dict[str, object]] = [to_builtins(each) for each in found]
    if not view.asker.operates and node != view.asker.node:
        # It would reveal how much is sent to somebody else.
        for each in copies:
            del each["ahead"]
    return copies


def _later(why: str) -> Response:
    answer = problem(503, why)
    answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def _event(event: Event, view: View) -> dict[str, object]:
    named = view.sees(event.publisher) & SEE_IDENTITY
    return {
        "time": time_text(event.time),
        "subject": event.subject,
        "publisher": event.publisher if named else None,
        "id": event.id,
    }
