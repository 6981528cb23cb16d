"""The application: figures, health and configuration, asked over real connections."""

import asyncio
import json
import math
import threading
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.operations.metrics import Figures, Health, Metrics
from nearcast.console.http import make_app
from nearcast.console.server import HttpServer
from nearcast.core.engine.engine import Record
from nearcast.core.model import Event, Subscription
from nearcast.core.model.inputs import Input, Published, Subscribed
from nearcast.store import LogSettings, RowBuffer, Store, broker_directory
from tests.support.clients.http_requests import Answer, ask


def asked(
    path: str,
    *,
    method: str = "GET",
    accept: str = "*/*",
    sources: Mapping[str, Callable[[], Figures]] | None = None,
    checks: Mapping[str, Callable[[], Health]] | None = None,
    settings: Settings | None = None,
) -> Answer:
    app = make_app(Metrics(sources or {}), checks or {}, settings or Settings())
    return asked_of(app, path, method=method, accept=accept)


def asked_of(app: FastAPI, path: str, *, method: str = "GET", accept: str = "*/*") -> Answer:
    async def run() -> Answer:
        async with HttpServer(app, port=0) as server:
            return await ask(server.port, path, method, accept)

    return asyncio.run(run())


def test_metrics_are_text_that_prometheus_reads() -> None:
    answer = asked("/metrics", sources={"hub": lambda: {"connections": 3}})
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {
        family.name: family for family in text_string_to_metric_families(answer.body.decode())
    }
    assert families["nearcast_hub_connections"].samples[0].value == 3
    assert families["nearcast_tick_duration_seconds"].type == "histogram"


def test_openmetrics_is_given_to_those_who_ask() -> None:
    answer = asked("/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")


HEALTH: dict[str, tuple[dict[str, Health], int]] = {
    "ok": ({"store": Health(), "loop": Health()}, 200),
    "degraded": ({"store": Health(), "loop": Health("degraded", "ticks take long")}, 200),
    "failing": ({"store": Health("failing", "no commit"), "loop": Health("degraded")}, 503),
}


@pytest.mark.parametrize("status", HEALTH)
def test_the_worst_check_is_the_health_of_all(status: str) -> None:
    found, code = HEALTH[status]
    checks = {name: (lambda health=health: health) for name, health in found.items()}
    answer = asked("/healthz", checks=checks)
    assert answer.status == code
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(answer.body) == {
        "status": status,
        "checks": {
            name: {"status": health.status, "detail": health.detail}
            for name, health in found.items()
        },
    }


def test_a_broker_without_checks_is_well() -> None:
    assert json.loads(asked("/healthz").body) == {"status": "ok", "checks": {}}


def test_a_check_that_fails_itself_is_failing_and_tells_no_more_than_its_kind() -> None:
    def broken() -> Health:
        raise OSError("/etc/secret")

    answer = asked("/healthz", checks={"store": broken})
    assert answer.status == 503
    assert b"OSError" in answer.body
    assert b"secret" not in answer.body


def test_health_can_be_asked_without_words() -> None:
    answer = asked("/healthz", method="HEAD", checks={"store": lambda: Health("failing")})
    assert (answer.status, answer.body) == (503, b"")


def test_statistics_are_json_also_of_sources_that_fail_or_give_no_number() -> None:
    def broken() -> dict[str, float]:
        raise RuntimeError

    sources: dict[str, Callable[[], Figures]] = {
        "hub": lambda: {"sessions": 2, "share": math.nan},
        "store": broken,
    }
    answer = asked("/api/statistics", sources=sources)
    assert answer.status == 200
    assert json.loads(answer.body) == {"hub": {"sessions": 2, "share": None}, "store": None}


def test_sources_and_checks_are_asked_in_the_thread_of_the_loop() -> None:
    threads = set()

    def ask_source() -> dict[str, float]:
        threads.add(threading.get_ident())
        return {}

    def ask_check() -> Health:
        threads.add(threading.get_ident())
        return Health()

    for path in ("/metrics", "/api/statistics", "/healthz"):
        asked(path, sources={"hub": ask_source}, checks={"hub": ask_check})
    assert threads == {threading.get_ident()}


def test_the_configuration_is_told_without_secrets() -> None:
    settings = Settings(listen=ListenSection(certificate="cert.pem", key="private.pem"))
    answer = asked("/api/config", settings=settings)
    told = json.loads(answer.body)
    assert told["broker"]["name"] == "local"
    assert told["listen"]["certificate"] == "cert.pem"
    assert told["listen"]["key"] == "(set)"
    assert b"private.pem" not in answer.body


def test_openapi_describes_every_route() -> None:
    answer = asked("/api/openapi.json")
    paths = json.loads(answer.body)["paths"]
    assert set(paths) == {
        "/", "/metrics", "/healthz", "/api/statistics", "/api/config", "/api/docs", "/api/events",
        "/api/nodes", "/api/explain/{event}/{node}",
    }  # fmt: skip


def test_any_event_and_any_node_can_be_asked_about(tmp_path: Path) -> None:
    events = ["bus-1", "encounters/ann/李%2F雷/near/1.5", "/", "a?b/"]
    nodes = ["ben", "李/雷", "50%", "ev il"]
    store = Store(tmp_path, "local", LogSettings(roll_s=0.0))
    rows = RowBuffer("local")
    wanted: list[Input] = [Subscribed(Subscription(node, node, "#")) for node in nodes]
    published: list[Input] = [Published(Event(event, "bus/7", "ann", 1.7e9)) for event in events]
    for seq, value in enumerate([*wanted, *published], 1):
        rows.append_record(Record(seq, 1.7e9, value))
    store.commit([], rows, now=0.0)
    store.roll(now=10.0)
    store.close()
    app = make_app(Metrics({}), {}, Settings(), broker_directory(tmp_path, "local") / "log")

    async def run() -> None:
        async with HttpServer(app, port=0) as server:
            for event, node in product(events, nodes):
                for way in {quote(event, safe=""), quote(event, safe="/")}:
                    path = f"/api/explain/{way}/{quote(node, safe='')}"
                    answer = await ask(server.port, path)
                    assert answer.status == 200, answer.body
                    told = json.loads(answer.body)
                    assert (told["event"], told["node"], told["delivered"]) == (event, node, True)
            assert (await ask(server.port, "/api/explain/none/x")).status == 404

    asyncio.run(run())


def test_the_page_lists_every_route_and_loads_nothing() -> None:
    app = make_app(Metrics({}), {}, Settings())

    @app.get("/api/nodes/{node}")
    async def node_by_name() -> None:
        """A node; <b>not</b> markup."""

    answer = asked_of(app, "/api/docs")
    page = answer.body.decode()
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    for path in ("/metrics", "/healthz", "/api/statistics", "/api/config"):
        assert f'href="{path}"' in page
    assert "/api/nodes/{node}" in page
    assert "&lt;b&gt;not" in page
    assert "<script" not in page
    assert "//" not in page.replace("<!doctype html>", "")


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/api/none", "/none"])
def test_other_paths_are_not_found(path: str) -> None:
    assert asked(path).status == 404
