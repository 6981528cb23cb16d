"""Who may ask what over HTTP: the users of the doors, each within its own rights."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import jwt
import pytest

from nearcast.broker.auth import Authenticator
from nearcast.broker.config.settings import AuthSection as DoorsSection
from nearcast.broker.config.settings import ListenSection, Settings
from nearcast.broker.operations.metrics import Metrics
from nearcast.broker.server import Server
from nearcast.console.http import make_app
from nearcast.console.server import HttpServer
from nearcast.core.engine.engine import Record
from nearcast.core.model import Event, Position, Subscription
from nearcast.core.model.inputs import Input, Moved, Published, Subscribed
from nearcast.store import LogSettings, RowBuffer, Store, broker_directory, record_row
from tests.support.accounts import SECRET, with_users
from tests.support.clients.http_requests import Answer, ask

SHARED = b"0123456789abcdef0123456789abcdef"
PATHS = ("/api/statistics", "/api/config", "/api/events", "/api/docs", "/api/openapi.json")
Ask = Callable[..., Awaitable[Answer]]


def basic(name: str, password: bytes | None = None) -> dict[str, str]:
    secret = SECRET[name] if password is None else password
    return {"Authorization": "Basic " + base64.b64encode(name.encode() + b":" + secret).decode()}


def asking(
    base: Path,
    work: Callable[[Ask], Awaitable[None]],
    *,
    rules: str = "",
    listen: ListenSection | None = None,
    tokens: bool = False,
) -> None:
    """Run a broker on a directory, with its log and its rules, and ask it."""
    if rules:
        (base / "rules.toml").write_text(rules)
    if tokens:
        (base / "key").write_bytes(SHARED)
    section = DoorsSection(
        rules=str(base / "rules.toml") if rules else "", jwt_key=str(base / "key") if tokens else ""
    )
    chosen = listen or ListenSection(mqtt_port=0, ws_port=0)
    settings = Settings(listen=chosen, doors=section)

    async def run() -> None:
        server = Server(settings, admission=Authenticator(settings, base))
        await server.start()
        log = broker_directory(base, "local") / "log"
        app = make_app(Metrics({}), {}, settings, log, server)
        try:
            async with HttpServer(app, port=0) as http:

                async def ask_it(path: str, **headers: str) -> Answer:
                    return await ask(http.port, path, headers=headers)

                await work(ask_it)
        finally:
            await server.stop()

    asyncio.run(run())


def with_log(base: Path) -> None:
    """A log in which alice publishes something to all, something secret, and bob listens."""
    store = Store(base, "local", LogSettings(roll_s=0.0))
    values: tuple[Input, ...] = (
        Subscribed(Subscription("bob\0#", "bob", "#")),
        Moved("alice", Position(53.35, -6.26)),
        Published(Event("open-1", "bus/7", "alice", 1.7e9)),
        Published(Event("secret-1", "secret/x", "alice", 1.7e9 + 1)),
    )
    rows = [record_row(Record(seq, 1.7e9, value), "local") for seq, value in enumerate(values, 1)]
    store.commit([], RowBuffer.of(rows), now=0.0)
    store.roll(now=10.0)
    store.close()


def test_without_users_everyone_on_this_machine_may_ask(tmp_path: Path) -> None:
    with_log(tmp_path)

    async def work(ask: Ask) -> None:
        for path in (*PATHS, "/api/explain/open-1/bob"):
            assert (await ask(path)).status == 200, path

    asking(tmp_path, work)


def test_with_users_all_of_the_api_asks_for_one(tmp_path: Path) -> None:
    with_users(tmp_path, "root")
    with_log(tmp_path)

    async def work(ask: Ask) -> None:
        for path in (*PATHS, "/api/explain/open-1/bob", "/api/none", "/api"):
            answer = await ask(path)
            assert answer.status == 401, path
            assert answer.headers["WWW-Authenticate"].startswith("Basic")
            assert (await ask(path, **basic("bob", b"guess"))).status == 401
        assert (await ask("/api/docs", **basic("bob"))).status == 200
        assert (await ask("/api/docs", Authorization="Basic !!")).status == 401
        assert (await ask("/api/docs", Authorization="Digest x")).status == 401
        # These are for machines that have no name here.
        for path in ("/", "/metrics", "/healthz"):
            assert (await ask(path)).status == 200, path

    asking(tmp_path, work)


def test_wrong_passwords_run_into_the_limit_of_the_doors(tmp_path: Path) -> None:
    with_users(tmp_path)

    async def work(ask: Ask) -> None:
        found = [(await ask("/api/docs", **basic("bob", b"guess"))).status for _ in range(31)]
        assert found == [401] * 30 + [429]
        assert (await ask("/api/docs", **basic("bob"))).status == 429

    asking(tmp_path, work)


def test_a_token_opens_the_api(tmp_path: Path) -> None:
    async def work(ask: Ask) -> None:
        good = jwt.encode({"sub": "carol", "exp": 4_000_000_000}, SHARED, "HS256")
        assert (await ask("/api/docs")).status == 401
        assert (await ask("/api/docs", Authorization=f"Bearer {good}")).status == 200
        assert (await ask("/api/docs", Authorization=f"Bearer {good}x")).status == 401

    asking(tmp_path, work, tokens=True)


def test_settings_are_for_superusers(tmp_path: Path) -> None:
    with_users(tmp_path, "root")

    async def work(ask: Ask) -> None:
        assert (await ask("/api/config", **basic("bob"))).status == 403
        assert (await ask("/api/config", **basic("root"))).status == 200

    asking(tmp_path, work)


RULES = """
[[rule]]
permission = "deny"
action = "subscribe"
who = "user:bob"
topics = ["secret/#", "$SYS/#"]

[[sight]]
viewer = "user:bob"
other = "user:alice"
see = ["identity"]
"""


def test_answers_keep_to_the_rights_of_the_asker(tmp_path: Path) -> None:
    with_users(tmp_path, "root")
    with_log(tmp_path)

    async def work(ask: Ask) -> None:
        bob, alice = basic("bob"), basic("alice")
        listed = json.loads((await ask("/api/events", **bob)).body)
        assert [each["id"] for each in listed] == ["open-1"]
        assert listed[0] == {
            "time": "2023-11-14T22:13:20.000Z", "subject": "bus/7", "publisher": "alice",
            "id": "open-1",
        }  # fmt: skip
        own = json.loads((await ask("/api/events", **alice)).body)
        assert [each["id"] for each in own] == ["secret-1", "open-1"]
        assert (await ask("/api/statistics", **bob)).status == 403
        assert (await ask("/api/explain/secret-1/bob", **bob)).status == 404
        assert (await ask("/api/explain/nothing/bob", **bob)).status == 404
        explained = await ask("/api/explain/open-1/bob", **bob)
        assert explained.status == 200
        assert "seq" not in json.loads(explained.body)
        assert json.loads(explained.body)["waiting"] == []
        # Another node takes the right to all of it.
        assert (await ask("/api/explain/open-1/alice", **bob)).status == 403
        assert (await ask("/api/explain/open-1/bob", **alice)).status == 200
        # And what was decided for another tells of the publisher.
        assert (await ask("/api/explain/open-1/root", **bob)).status == 403

    asking(tmp_path, work, rules=RULES)


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/api/docs", "/api/explain/a/b"])
def test_a_page_of_another_site_is_answered_nothing(tmp_path: Path, path: str) -> None:
    async def work(ask: Ask) -> None:
        for headers in (
            {"Host": "evil.example"},
            {"Host": "evil.example:8080"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        ):
            answer = await ask(path, **headers)
            assert answer.status == 403, headers
            assert b"error" in answer.body

    asking(tmp_path, work)


def test_names_and_pages_that_are_listed_are_answered(tmp_path: Path) -> None:
    listen = ListenSection(
        mqtt_port=0, ws_port=0, hosts=("broker.example",), origins=("https://app.example",)
    )

    async def work(ask: Ask) -> None:
        for headers in (
            {"Host": "broker.example:8080"},
            {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"},
            {"Origin": "http://localhost:3000"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        ):
            assert (await ask("/api/docs", **headers)).status == 200, headers

    asking(tmp_path, work, listen=listen)


def test_who_is_there_within_the_rights_of_the_asker(tmp_path: Path) -> None:
    with_users(tmp_path, "root")

    async def work(ask: Ask) -> None:
        bob, alice = basic("bob"), basic("alice")
        for name, secret in (("alice", alice), ("bob", bob)):
            found = json.loads((await ask("/api/nodes", **secret)).body)
            assert found == {"nodes": [], "next": None}, name
        answer = await ask("/api/nodes?in=circle:x", **bob)
        assert answer.status == 400
        assert '"in"' in json.loads(answer.body)["error"]
        assert (await ask("/api/nodes?most=0", **bob)).status == 400
        assert (await ask("/api/nodes")).status == 401

    asking(tmp_path, work)


def test_an_event_with_a_smallest_people_is_unknown_except_to_its_publisher(tmp_path: Path) -> None:
    with_users(tmp_path, "root")
    store = Store(tmp_path, "local", LogSettings(roll_s=0.0))
    hidden = Event("hidden-1", "bus/7", "alice", 1.7e9, people=3, base_set="every 60")
    values: tuple[Input, ...] = (
        Subscribed(Subscription("bob\0#", "bob", "#")),
        Published(hidden),
        *(
            Published(Event("same", "bus/7", name, 1.7e9, people=3, base_set="every 60"))
            for name in ("carol", "dave")
        ),
    )
    rows = [record_row(Record(seq, 1.7e9, value), "local") for seq, value in enumerate(values, 1)]
    store.commit([], RowBuffer.of(rows), now=0.0)
    store.roll(now=10.0)
    store.close()

    async def work(ask: Ask) -> None:
        for name in ("bob", "root"):
            listed = json.loads((await ask("/api/events", **basic(name))).body)
            assert listed == []
            answer = await ask("/api/explain/hidden-1/bob", **basic(name))
            unknown = await ask("/api/explain/nothing/bob", **basic(name))
            assert (answer.status, answer.body) == (404, unknown.body)
        for name in ("bob", "root"):
            answer = await ask("/api/explain/same/bob", **basic(name))
            assert (answer.status, answer.body) == (404, unknown.body)
        alice = basic("alice")
        assert len(json.loads((await ask("/api/events", **alice)).body)) == 1
        assert (await ask("/api/explain/hidden-1/alice", **alice)).status == 200

    asking(tmp_path, work, rules=RULES)
