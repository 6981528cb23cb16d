"""The broker over HTTP: metrics, health and its API.

Every response is made in the broker's own event loop, where its parts may be called. No page loads
anything from elsewhere.
"""

import html
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse

from nearcast.broker.config.settings import Settings
from nearcast.broker.net.web_origins import WebOrigins
from nearcast.broker.operations.explanations.explanation_queue import ExplanationQueue
from nearcast.broker.operations.metrics import Health, Metrics
from nearcast.broker.server import Server
from nearcast.console.answers import HEADERS, json_answer, problem
from nearcast.console.api import make_api
from nearcast.console.gate import Gate
from nearcast.logs import log_event

log = logging.getLogger("nearcast.console")

SEVERITY = ("ok", "degraded", "failing")
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Nearcast: {title}</title>
<style>
  body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 50rem;
         padding: 0 1rem; color-scheme: light dark }}
  td {{ padding: .25rem 1.5rem .25rem 0; vertical-align: top }}
</style>
<h1>Nearcast {version}: {title}</h1>
{body}
</html>
"""
FRONT = """<p>An MQTT broker that knows the situation: who gets an event is decided from where both
sides are and what they are doing.</p>
<table>
<tr><td><a href="/api/docs">/api/docs</a><td>what can be asked over HTTP
<tr><td><a href="/metrics">/metrics</a><td>all figures, for Prometheus
<tr><td><a href="/healthz">/healthz</a><td>whether the broker does its job
</table>"""
API = """<p>The same for machines: <a href="/api/openapi.json">/api/openapi.json</a>.</p>
<table>
{rows}
</table>"""

Check = Callable[[], Health]


def make_app(
    metrics: Metrics,
    checks: Mapping[str, Check],
    settings: Settings,
    log_directory: Path | None = None,
    server: Server | None = None,
) -> FastAPI:
    """Return the application.

    With a log it can explain decisions; with a server it checks credentials and lists nodes, and
    without one there are no permissions.
    """
    explanations = None if log_directory is None else ExplanationQueue(log_directory)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        if explanations is not None:
            await explanations.stop()

    app = FastAPI(
        lifespan=lifespan,
        title="Nearcast",
        version=version("nearcast"),
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.explanations = explanations
    app.add_middleware(Gate, names=WebOrigins.of(settings.listen), broker=server)

    # Plain `async def` throughout: FastAPI runs other functions in threads, and the parts that are
    # called belong to the event loop.
    @app.get("/", response_class=HTMLResponse)
    async def front() -> HTMLResponse:
        """What this is, and where to go on."""
        return _page(app, "a broker", FRONT)

    @app.get("/metrics", response_class=Response)
    async def figures_for_prometheus(request: Request) -> Response:
        """All figures, for Prometheus."""
        body, content_type = metrics.text(request.headers.get("accept", ""))
        return Response(body, headers=HEADERS | {"Content-Type": content_type})

    @app.get("/healthz", response_model=dict[str, object])
    async def health() -> Response:
        """Whether the broker does its job; 503 when it does not."""
        found = {name: _ask(name, check) for name, check in checks.items()}
        status = max((one.status for one in found.values()), key=SEVERITY.index, default="ok")
        answer = {"status": status, "checks": found}
        return json_answer(answer, 503 if status == "failing" else 200)

    @app.head("/healthz", include_in_schema=False)
    async def health_head() -> Response:
        return await health()

    @app.exception_handler(RequestValidationError)
    async def misunderstood(request: Request, error: RequestValidationError) -> Response:
        found = error.errors()[0]
        return problem(400, f"{found['loc'][-1]}: {found['msg']}")

    app.include_router(make_api(metrics, settings, log_directory, server, explanations))

    @app.get("/api/docs", response_class=HTMLResponse)
    async def api() -> HTMLResponse:
        """The list of requests."""
        return _page(app, "HTTP API", API.format(rows=_rows(app)))

    return app


def _ask(name: str, check: Check) -> Health:
    try:
        return check()
    except Exception as error:
        log_event(log, logging.WARNING, "a health check failed", check=name, error=repr(error))
        return Health("failing", f"the check itself failed: {type(error).__name__}")


def _page(app: FastAPI, title: str, body: str) -> HTMLResponse:
    page = PAGE.format(title=title, version=html.escape(app.version), body=body)
    return HTMLResponse(page, headers=HEADERS)


def _rows(app: FastAPI) -> str:
    rows = []
    for path, methods in app.openapi()["paths"].items():
        shown = html.escape(path)
        link = f'<a href="{shown}">{shown}</a>' if "{" not in path else shown
        for method, operation in methods.items():
            # FastAPI makes the summary from the function's name; the description is for readers.
            text = operation.get("description") or operation.get("summary", "")
            rows.append(f"<tr><td>{method.upper()}<td>{link}<td>{html.escape(text)}")
    return "\n".join(rows)
