"""Checkpoints that were moved: a data directory may be renamed, or restored elsewhere.

Spark finds all files of a query relative to its checkpoint, with one exception: beside the state of
an operator it stores absolute paths of the files that describe its columns. They are updated before
a query resumes.
"""

from pathlib import Path

import msgspec

from nearcast.store.durable_files import write_whole

_PARTS = 3
"""The last parts of such a path, which do not change: `_stateSchema`, the store, the file."""


def settle(checkpoint: Path) -> int:
    """Update the paths in a checkpoint's metadata; return how many files were wrong."""
    notes = checkpoint.glob("state/*/_metadata/v2/*")
    return sum(_settled(note) for note in notes if note.name.isdecimal())


def _settled(note: Path) -> bool:
    """Update one metadata file, a version and a line of JSON; return True if it was wrong."""
    operator = note.parents[2].resolve()
    version, _, text = note.read_text().partition("\n")
    value = msgspec.json.decode(text, type=dict[str, object])
    stores = msgspec.convert(value["stateStoreInfo"], list[dict[str, object]])
    wrong = False
    for store in stores:
        named = msgspec.convert(store.get("stateSchemaFilePaths", []), list[str])
        now = [_now(each, operator) for each in named]
        wrong |= named != now
        store["stateSchemaFilePaths"] = now
    if wrong:
        value["stateStoreInfo"] = stores
        # The checksum is removed first: without one Spark does not verify the file.
        note.with_name(f".{note.name}.crc").unlink(missing_ok=True)
        write_whole(note, f"{version}\n{msgspec.json.encode(value).decode()}".encode())
    return wrong


def _now(named: str, operator: Path) -> str:
    """Return the current path of a file, if it is one beside the state of this operator."""
    here = operator.joinpath(*named.split("/")[-_PARTS:])
    return f"file:{here}" if named.startswith("file:") and here.exists() else named
