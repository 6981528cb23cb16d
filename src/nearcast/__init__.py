"""Publish/subscribe that knows the situation.

The public names, loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearcast.client.api.areas import box, circle, here, place, polygon
    from nearcast.client.api.commands import Problem
    from nearcast.client.api.node import Node, connect
    from nearcast.client.api.observations import Known, Present, Sighting
    from nearcast.client.api.received import Received
    from nearcast.client.api.streams import Stream
    from nearcast.client.errors import (
        AddressError,
        BacklogError,
        ClientError,
        ConnectionLostError,
        OptionsError,
        QueueFullError,
        RejectedError,
    )
    from nearcast.core.engine.engine import Engine
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
        parse_area,
    )
    from nearcast.errors import NearcastError

__all__ = [
    "AddressError",
    "BacklogError",
    "ClientError",
    "ConnectionLostError",
    "Engine",
    "Event",
    "EventBatch",
    "Filter",
    "Known",
    "LanguageError",
    "Matcher",
    "ModelError",
    "NearcastError",
    "Node",
    "OptionsError",
    "Places",
    "Position",
    "Present",
    "Problem",
    "QueueFullError",
    "Received",
    "RejectedError",
    "Sighting",
    "Stream",
    "Subscription",
    "box",
    "circle",
    "connect",
    "here",
    "parse_area",
    "parse_filter",
    "place",
    "polygon",
]

_HOME = {
    "AddressError": "client.errors",
    "BacklogError": "client.errors",
    "ClientError": "client.errors",
    "ConnectionLostError": "client.errors",
    "Engine": "core.engine.engine",
    "Filter": "core.language",
    "Known": "client.api.observations",
    "LanguageError": "core.language",
    "Matcher": "core.matching.matcher",
    "NearcastError": "errors",
    "Node": "client.api.node",
    "OptionsError": "client.errors",
    "Problem": "client.api.commands",
    "QueueFullError": "client.errors",
    "Received": "client.api.received",
    "RejectedError": "client.errors",
    "Present": "client.api.observations",
    "Sighting": "client.api.observations",
    "Stream": "client.api.streams",
    "box": "client.api.areas",
    "circle": "client.api.areas",
    "connect": "client.api.node",
    "here": "client.api.areas",
    "parse_filter": "core.language",
    "place": "client.api.areas",
    "polygon": "client.api.areas",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'nearcast' has no attribute {name!r}")
    try:
        home = import_module(f"nearcast.{_HOME.get(name, 'core.model')}")
        return getattr(home, "parse" if name == "parse_filter" else name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"nearcast.{name} needs {error.name}: install Nearcast with its extra 'broker'"
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
