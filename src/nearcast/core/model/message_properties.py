"""User properties in the headers of an event, which are encoded as in an MQTT 5 PUBLISH."""

_USER_PROPERTY = 0x26
_TEXTS = (0x03, 0x08, 0x09)
"""Content type, response topic and correlation data: a length of two bytes, and so many bytes."""
_WIDTHS = {0x01: 1, 0x02: 4, 0x23: 2}
"""Format indicator, expiry interval and topic alias."""


def user_properties_in(headers: bytes) -> tuple[tuple[str, str], ...]:
    """Return the user properties in headers that were checked, in their order."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(headers):
        kind, at = headers[at], at + 1
        if kind == _USER_PROPERTY:
            name, at = _text(headers, at)
            value, at = _text(headers, at)
            found.append((name.decode(), value.decode()))
        elif kind in _TEXTS:
            _, at = _text(headers, at)
        else:
            at += _WIDTHS[kind]
    return tuple(found)


def _text(headers: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + int.from_bytes(headers[at : at + 2], "big")
    return headers[at + 2 : end], end
