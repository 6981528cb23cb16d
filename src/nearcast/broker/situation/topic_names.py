"""Names in topics: percent-encoded levels that mean the same in any spelling.

`$node/NODE/…`, `$place/KIND/NAME`, `$area/NAME` and similar topics contain names, and so does
`owntracks/USER/DEVICE`. Each is decoded once, level by level; rules and the matcher see one normal
form. Levels stay encoded there, so that a slash or a wildcard in a name is never one of the topic.
"""

from urllib.parse import quote, unquote

BROKER_TOPICS = ("$node/", "$place/", "$area/", "$relate/", "$policy/")
"""Prefixes of broker topics that contain names."""
ERRORS = "$me/errors"
NODES = "$me/nodes"
SCRIPTS = "$me/scripts"
FOLLOW = "$me/follow"
CALLS = "$me/calls"
PRIVATE = (ERRORS, NODES, SCRIPTS, FOLLOW, CALLS)
"""Topics on which the broker answers a single session; the engine does not know them."""
INTERNAL = "$script/"
"""The beginning of topics of messages that the broker sends to itself."""
_NAMED = (*BROKER_TOPICS, "owntracks/")
_WILD = ("+", "#")


def normalize_topic(topic: str) -> str:
    """Return a topic or a filter with its names in normal form; others unchanged."""
    if not topic.startswith(_NAMED):
        return topic
    head, *levels = topic.split("/")
    return "/".join((head, *map(_normalize_level, levels)))


def decode_name(level: str) -> str | None:
    """Return the name in a topic level, or None if it is not text, or empty."""
    try:
        name = unquote(level, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if "\0" in name else name or None


def _normalize_level(level: str) -> str:
    if level in _WILD:
        return level
    # Bytes that are not UTF-8 are kept: two such levels stay different, and name no node.
    return quote(unquote(level, errors="surrogateescape"), safe="", errors="surrogateescape")
