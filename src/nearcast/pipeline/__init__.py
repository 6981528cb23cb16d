"""The data pipeline on Spark: what all brokers recorded, as tables and as events for people.

The names for programs of one's own, listed in `__init__.pyi`, are loaded when they are first used.
"""

from importlib import import_module

from nearcast._lazy_names import homes_of

_HOMES = homes_of(__spec__)
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
