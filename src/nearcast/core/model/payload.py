"""Payloads: what the bytes of a message say as attributes.

A JSON object's members are attributes, other JSON is the attribute `value`; what is not JSON, or
too large to look into, has none.
"""

import msgspec

from nearcast.core.model.context import Value

LARGEST_JSON_PAYLOAD = 64 * 1024


def attributes_of(payload: bytes) -> dict[str, Value]:
    """Return the attributes that a payload says."""
    if not payload or len(payload) > LARGEST_JSON_PAYLOAD:
        return {}
    try:
        value: Value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {"value": value}
