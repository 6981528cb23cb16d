"""Times as text: RFC 3339, as exact as clients give them."""

from datetime import UTC, datetime
from functools import lru_cache
from math import modf


def time_text(seconds: float) -> str:
    """Return an RFC 3339 time in milliseconds, or microseconds if that is more exact."""
    fraction, whole = modf(seconds)
    microseconds = round(fraction * 1e6)
    if not 0 <= microseconds < 1_000_000:
        carry = 1 if microseconds > 0 else -1
        whole, microseconds = whole + carry, microseconds - carry * 1_000_000
    thousandths, rest = divmod(microseconds, 1_000)
    end = f"{microseconds:06}" if rest else f"{thousandths:03}"
    return f"{_second_text(int(whole))}.{end}Z"


@lru_cache(16)
def _second_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="seconds")
