"""Checkpoints that were moved: a data directory may be renamed, or restored at another place.

All that Spark keeps of a query is found from where the checkpoint is, but for one thing: beside
the state of an operator it notes the whole paths of the files that describe its columns. Before
a query goes on they are made to say where those files lie now.
"""

from pathlib import Path

import msgspec

from nearcast.store.durable_files import write_whole

_PARTS = 3
"""Of such a path these stay the same: `_stateSchema`, the store and the file."""


def settle(checkpoint: Path) -> int:
    """Let a checkpoint's own notes name files where they lie now; how many notes were wrong."""
    notes = checkpoint.glob("state/*/_metadata/v2/*")
    return sum(_settled(note) for note in notes if note.name.isdecimal())


def _settled(note: Path) -> bool:
    """Correct one note, which is a version and a line of JSON; whether it was wrong."""
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
        # Its checksum first: without one Spark takes a file as it is.
        note.with_name(f".{note.name}.crc").unlink(missing_ok=True)
        write_whole(note, f"{version}\n{msgspec.json.encode(value).decode()}".encode())
    return wrong


def _now(named: str, operator: Path) -> str:
    """Return where a file lies, if it is one beside the state of this operator."""
    here = operator.joinpath(*named.split("/")[-_PARTS:])
    return f"file:{here}" if named.startswith("file:") and here.exists() else named
