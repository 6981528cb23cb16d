"""Payloads: the attributes in the bytes of a message.

The members of a JSON object are attributes, other JSON is the attribute `value`; a payload that is
not JSON, too large or too deeply nested has none. No payload is a reason to refuse its message.
"""

import msgspec

from nearcast.core.model.context import DEEPEST_ATTRIBUTES, Value

LARGEST_JSON_PAYLOAD = 64 * 1024
_EMPTY = (b"", b"{}")


def attributes_of(payload: bytes) -> dict[str, Value]:
    """Return the attributes of a payload."""
    if not payload or len(payload) > LARGEST_JSON_PAYLOAD:
        return {}
    try:
        value: Value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    # The nesting depth cannot exceed the number of brackets.
    if payload.count(b"[") + payload.count(b"{") >= DEEPEST_ATTRIBUTES and _is_deep(value):
        return {}
    return value if isinstance(value, dict) else {"value": value}


def is_opaque(payload: bytes) -> bool:
    """Return whether a payload says something that its attributes do not."""
    return bool(payload) and not attributes_of(payload) and payload.strip() not in _EMPTY


def _is_deep(value: Value) -> bool:
    """Return whether a value exceeds the allowed nesting depth, as the value of an attribute."""
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
