"""HTTP responses: JSON, not cached by browsers, and without external resources."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

T = TypeVar("T")

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}


def json_answer(answer: object, status: int = 200) -> Response:
    """Return a JSON response."""
    body = msgspec.json.encode(answer)
    return Response(body, status, headers=HEADERS, media_type="application/json")


def problem(status: int, why: str) -> Response:
    """Return an error response."""
    return json_answer({"error": why}, status)


async def while_connected(request: Request, work: Coroutine[object, object, T]) -> T | None:
    """Return the result of slow work; None if the client hung up, which cancels it."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_hung_up(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
        await asyncio.wait((working, leaving))
    return None if working.cancelled() else working.result()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
