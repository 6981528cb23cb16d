"""Publish/subscribe that knows the situation.

The public names, loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearcast.core.engine import Engine
    from nearcast.core.language import Filter, LanguageError
    from nearcast.core.language import parse as parse_filter
    from nearcast.core.matching.matcher import Matcher
    from nearcast.core.model import (
        Event,
        EventBatch,
        ModelError,
        Places,
        Position,
        Subscription,
        box,
        circle,
        parse_area,
        place,
        polygon,
    )

__all__ = [
    "Engine",
    "Event",
    "EventBatch",
    "Filter",
    "LanguageError",
    "Matcher",
    "ModelError",
    "Places",
    "Position",
    "Subscription",
    "box",
    "circle",
    "parse_area",
    "parse_filter",
    "place",
    "polygon",
]

_HOME = {
    "Engine": "nearcast.core.engine",
    "Filter": "nearcast.core.language",
    "LanguageError": "nearcast.core.language",
    "Matcher": "nearcast.core.matching.matcher",
    "parse_filter": "nearcast.core.language",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'nearcast' has no attribute {name!r}")
    home = import_module(_HOME.get(name, "nearcast.core.model"))
    return getattr(home, "parse" if name == "parse_filter" else name)
