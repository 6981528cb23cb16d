"""The trained dictionaries of one broker, in a file of its directory.

A dictionary is raw payload: what is removed from the log must be removed here too. The pattern of
one that was removed stays, so that it can be trained anew.
"""

from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.store.durable_files import write_whole
from nearcast.store.errors import CorruptError
from nearcast.wire.encoding.content_codings import Dictionary

NAME = "dictionaries.json"


class StoredDictionary(Struct, frozen=True):
    """A dictionary, how it was trained, and for what."""

    pattern: str
    least_publishers: int
    """Every text in it is of at least so many publishers."""
    largest: int
    """The limit of its size in bytes."""
    number: int = 0
    """Unique in the broker: one that is trained anew has another."""
    trained: bytes = b""
    """Empty: it must be trained first."""
    trained_at: float = 0.0
    messages: int = 0
    """The messages that it was trained from."""


class _File(Struct):
    last_number: int = 0
    dictionaries: list[StoredDictionary] = []


def read_dictionaries(directory: Path) -> list[StoredDictionary]:
    """Return the dictionaries of a broker, untrained ones too."""
    return _read(directory).dictionaries


def keep_dictionaries(directory: Path, trained: list[StoredDictionary]) -> list[StoredDictionary]:
    """Keep dictionaries, each with a new number, in place of those for the same patterns."""
    file = _read(directory)
    numbered = []
    for each in trained:
        file.last_number += bool(each.trained)
        numbered.append(replace(each, number=file.last_number if each.trained else 0))
    new = {each.pattern for each in trained}
    kept = [each for each in file.dictionaries if each.pattern not in new]
    _write(directory, _File(file.last_number, sorted([*kept, *numbered], key=_by_pattern)))
    return numbered


def remove_trained(directory: Path) -> bool:
    """Remove what was trained, and keep for what; return whether there was anything."""
    file = _read(directory)
    if not any(each.trained for each in file.dictionaries):
        return False
    left = [
        replace(each, number=0, trained=b"", trained_at=0.0, messages=0)
        for each in file.dictionaries
    ]
    _write(directory, _File(file.last_number, left))
    return True


def in_use(dictionaries: list[StoredDictionary]) -> tuple[tuple[str, Dictionary], ...]:
    """Return the trained ones with their patterns, for encoding."""
    return tuple(
        (each.pattern, Dictionary(each.number, each.trained))
        for each in dictionaries
        if each.trained
    )


def _by_pattern(dictionary: StoredDictionary) -> tuple[bool, int, str]:
    """Exact patterns first, then long ones: the first that matches a topic is used."""
    pattern = dictionary.pattern
    return "+" in pattern or "#" in pattern, -len(pattern), pattern


def _read(directory: Path) -> _File:
    path = directory / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return _File()
    except msgspec.MsgspecError as error:
        raise CorruptError(f"{path} holds no dictionaries: {error}") from None


def _write(directory: Path, file: _File) -> None:
    write_whole(directory / NAME, msgspec.json.encode(file))
