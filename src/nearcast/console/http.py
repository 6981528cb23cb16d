"""The broker over HTTP: figures, health and configuration, for machines and for a look.

Every answer is made in the broker's own loop, where its parts may be asked. No page loads
anything from elsewhere.
"""

import asyncio
import html
import logging
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from nearcast.broker.explaining import as_value, explain
from nearcast.broker.known_settings import public
from nearcast.broker.metrics import Health, Metrics
from nearcast.broker.settings import Settings
from nearcast.broker.speaking import say
from nearcast.store import StoreError

log = logging.getLogger("nearcast.console")

SEVERITY = ("ok", "degraded", "failing")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Nearcast: HTTP API</title>
<style>
  body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 50rem;
         padding: 0 1rem; color-scheme: light dark }}
  td {{ padding: .25rem 1.5rem .25rem 0; vertical-align: top }}
</style>
<h1>Nearcast {version}: HTTP API</h1>
<p>The same for machines: <a href="/api/openapi.json">/api/openapi.json</a>.</p>
<table>
{rows}
</table>
</html>
"""

Check = Callable[[], Health]


def make_app(
    metrics: Metrics,
    checks: Mapping[str, Check],
    settings: Settings,
    log_directory: Path | None = None,
) -> FastAPI:
    """Return the application; with a log it can explain decisions."""
    app = FastAPI(
        title="Nearcast",
        version=version("nearcast"),
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )

    # Plain `async def` throughout: FastAPI runs other functions in threads, and the parts that
    # are asked belong to the loop.
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
        return _json(answer, 503 if status == "failing" else 200)

    @app.head("/healthz", include_in_schema=False)
    async def health_without_words() -> Response:
        return await health()

    @app.get("/api/statistics", response_model=dict[str, dict[str, float] | None])
    async def statistics() -> Response:
        """The figures of every part; null for a part that gives none."""
        return _json(metrics.statistics())

    @app.get("/api/config", response_model=dict[str, dict[str, object]])
    async def configuration() -> Response:
        """The settings in force; where keys and passwords are kept is left out."""
        return _json(public(settings))

    @app.get("/api/explain/{event:path}/{node}", response_model=dict[str, object])
    async def explanation(event: str, node: str, request: Request) -> Response:
        """Why a node did or did not get an event; the log is played again, which takes a while.

        Slashes in the id of an event may stay; in the name of a node they are %2F.
        """
        if log_directory is None:
            return _json({"error": "this broker keeps no log"}, 404)
        # The parameters are cut where a %2F was, too; as it was sent, the last level is the node.
        sent = request.scope["raw_path"].decode("ascii").removeprefix("/api/explain/")
        event, _, node = map(unquote, sent.rpartition("/"))
        try:
            found = await asyncio.to_thread(explain, log_directory, event, node)
        except StoreError as error:
            return _json({"error": str(error)}, 404)
        return _json(as_value(found))

    @app.get("/api/docs", response_class=HTMLResponse)
    async def api() -> HTMLResponse:
        """The list of what can be asked."""
        return HTMLResponse(_page(app), headers=HEADERS)

    return app


def _ask(name: str, check: Check) -> Health:
    try:
        return check()
    except Exception as error:
        say(log, logging.WARNING, "a health check failed", check=name, error=repr(error))
        return Health("failing", f"the check itself failed: {type(error).__name__}")


def _json(answer: object, status: int = 200) -> Response:
    body = msgspec.json.encode(answer)
    return Response(body, status, headers=HEADERS, media_type="application/json")


def _page(app: FastAPI) -> str:
    rows = []
    for path, methods in app.openapi()["paths"].items():
        shown = html.escape(path)
        link = f'<a href="{shown}">{shown}</a>' if "{" not in path else shown
        for method, operation in methods.items():
            # FastAPI makes the summary from the function's name; what people read is its text.
            words = operation.get("description") or operation.get("summary", "")
            rows.append(f"<tr><td>{method.upper()}<td>{link}<td>{html.escape(words)}")
    return PAGE.format(version=html.escape(app.version), rows="\n".join(rows))
