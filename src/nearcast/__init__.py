"""Publish/subscribe that knows the situation.

The public names, listed in `__init__.pyi`, are loaded when they are first used.
"""

from importlib import import_module

from nearcast._lazy_names import homes_of

_HOMES = homes_of(__spec__)
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"nearcast.{name} needs {error.name}: install Nearcast with its extra 'broker'"
        ) from error


def __dir__() -> list[str]:
    return sorted(_HOMES)
