"""The data pipeline on Spark: the logs of all brokers as tables and as published events.

The public names, listed in `__init__.pyi`, are imported on first use.
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
