"""Dictionaries of a broker, trained from its log and put to use."""

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from nearcast.broker.config.settings import Settings
from nearcast.broker.operations.control import ask
from nearcast.pipeline.dictionaries.training import train_dictionary
from nearcast.pipeline.errors import PipelineInputError
from nearcast.store import StoreError, broker_directory
from nearcast.store.dictionaries import StoredDictionary, keep_dictionaries, read_dictionaries


def train_patterns(
    settings: Settings, patterns: Sequence[str], least: int, largest: int
) -> list[StoredDictionary]:
    """Train and keep a dictionary for each pattern: all of them or none."""
    directory = _directory(settings)
    log, now = directory / "log", time.time()
    trained = [
        train_dictionary(log, pattern, now, least, largest) for pattern in dict.fromkeys(patterns)
    ]
    return _use(directory, trained)


def train_anew(settings: Settings) -> list[StoredDictionary]:
    """Train all dictionaries anew; one whose messages are too few now waits for more."""
    directory = _directory(settings)
    log, now = directory / "log", time.time()
    trained = []
    for each in read_dictionaries(directory):
        try:
            found = train_dictionary(log, each.pattern, now, each.least_publishers, each.largest)
        except PipelineInputError:
            found = replace(each, trained=b"", messages=0, trained_at=0.0)
        trained.append(found)
    return _use(directory, trained)


def _use(directory: Path, trained: list[StoredDictionary]) -> list[StoredDictionary]:
    found = keep_dictionaries(directory, trained)
    with contextlib.suppress(ConnectionError):
        ask(directory, "dictionaries")
    return found


def _directory(settings: Settings) -> Path:
    directory = broker_directory(Path(settings.node.data), settings.node.name)
    if not directory.is_dir():
        raise StoreError(f"{directory} holds no broker; name its data directory")
    return directory
