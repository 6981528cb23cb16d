"""The layout of a data directory, which its copy in an object store has too."""

import re
from pathlib import Path
from typing import overload

from nearcast.store.errors import StoreError
from nearcast.store.object_paths import AnyPath, ObjectPath, folders_in

_BROKER = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
BROKERS, LOG = "brokers", "log"


@overload
def broker_directory(root: Path, broker: str) -> Path: ...
@overload
def broker_directory(root: AnyPath, broker: str) -> AnyPath: ...
def broker_directory(root: AnyPath, broker: str) -> AnyPath:
    """Return the directory of a broker's data."""
    if not _BROKER.fullmatch(broker):
        raise StoreError(
            f"{broker!r} cannot name a broker: use up to 100 letters, digits, dots, hyphens and "
            "underscores, no dot in front"
        )
    return root / BROKERS / broker


@overload
def log_directory(root: Path, broker: str) -> Path: ...
@overload
def log_directory(root: AnyPath, broker: str) -> AnyPath: ...
def log_directory(root: AnyPath, broker: str) -> AnyPath:
    """Return the directory of a broker's log."""
    return broker_directory(root, broker) / LOG


def brokers_in(root: AnyPath) -> list[str]:
    """Return the names of all brokers that have a log, ordered."""
    found = folders_in(root / BROKERS)
    if isinstance(root, ObjectPath):
        return found
    return [name for name in found if (root / BROKERS / name / LOG).is_dir()]
