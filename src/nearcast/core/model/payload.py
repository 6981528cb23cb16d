"""Payloads: what the bytes of a message say as attributes.

A JSON object's members are attributes, other JSON is the attribute `value`; what is not JSON, or
too large or too deeply nested to look into, has none. Whatever a payload is, it is no reason to
refuse its message.
"""

import msgspec

from nearcast.core.model.context import DEEPEST_ATTRIBUTES, Value

LARGEST_JSON_PAYLOAD = 64 * 1024


def attributes_of(payload: bytes) -> dict[str, Value]:
    """Return the attributes that a payload says."""
    if not payload or len(payload) > LARGEST_JSON_PAYLOAD:
        return {}
    try:
        value: Value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    # Nothing is nested deeper than there are brackets.
    if payload.count(b"[") + payload.count(b"{") >= DEEPEST_ATTRIBUTES and _is_deep(value):
        return {}
    return value if isinstance(value, dict) else {"value": value}


def _is_deep(value: Value) -> bool:
    """Whether a value is nested too deeply to be looked into, as the value of an attribute is."""
    level: list[Value] = [value] if isinstance(value, dict) else [{"value": value}]
    for _ in range(DEEPEST_ATTRIBUTES):
        inside: list[Value] = []
        for each in level:
            if isinstance(each, dict):
                inside += each.values()
            elif isinstance(each, list):
                inside += each
        level = inside
    return bool(level)
