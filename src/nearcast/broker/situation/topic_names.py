"""Names in topics: levels that are percent-encoded, and mean the same however they are spelt.

`$node/NODE/…`, `$place/KIND/NAME`, `$area/NAME` and their like hold names, and so does
`owntracks/USER/DEVICE`. Each is decoded once, level by level; rules and the matcher see the one
spelling that all others come to. Levels stay encoded there, so that a slash or a wildcard in a
name is never one of the topic.
"""

from urllib.parse import quote, unquote

BROKER_TOPICS = ("$node/", "$place/", "$area/", "$relate/", "$policy/")
"""What topics of the broker that hold names begin with."""
ERRORS = "$me/errors"
NODES = "$me/nodes"
PRIVATE = (ERRORS, NODES)
"""Topics on which the broker answers one session alone; the engine knows nothing of them."""
_NAMED = (*BROKER_TOPICS, "owntracks/")
_WILD = ("+", "#")


def normalize_topic(topic: str) -> str:
    """Return a topic or a filter with the names in it in one spelling; others as they are."""
    if not topic.startswith(_NAMED):
        return topic
    head, *levels = topic.split("/")
    return "/".join((head, *map(_normalize_level, levels)))


def decode_name(level: str) -> str | None:
    """Return the name that a level spells, or None if it is no text, or empty."""
    try:
        name = unquote(level, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if "\0" in name else name or None


def _normalize_level(level: str) -> str:
    if level in _WILD:
        return level
    # Bytes that are no text stay as they are: two such levels are two, and nobody's name.
    return quote(unquote(level, errors="surrogateescape"), safe="", errors="surrogateescape")
