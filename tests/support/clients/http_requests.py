"""Real requests to a real server, made in a thread while the loop serves them."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message

from msgspec import Struct


class Answer(Struct):
    """What a request brought."""

    status: int
    headers: Message
    body: bytes


async def ask(
    port: int,
    path: str,
    method: str = "GET",
    accept: str = "*/*",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Make a request on loopback."""

    def call() -> Answer:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}",
            method=method,
            headers={"Accept": accept, **(headers or {})},
        )
        # Without the proxies of the environment: loopback is meant.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as response:
                return Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    return await asyncio.to_thread(call)
