"""HTTP responses: JSON, not cached by browsers, and without external resources."""

import msgspec
from starlette.responses import Response

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
