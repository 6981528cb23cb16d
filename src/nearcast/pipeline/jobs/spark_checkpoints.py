"""Files of Spark's checkpoints, which have no public interface: the one module that reads them.

What is needed of them: the offsets of an epoch while it runs (how large it is, and where it ends),
how far a query has got when no query runs, and the id of a query. Spark also stores absolute paths
of the files that describe the columns of a state, which are wrong after a data directory was moved.
`tests/pipeline/jobs/test_spark_checkpoints.py` runs a query and fails if Spark changes any of them.
"""

import json
from pathlib import Path

import msgspec

from nearcast.store.durable_files import write_whole

Offset = dict[str, int]
"""The next seq of each broker."""
_PARTS = 3
"""The last parts of a path of a state's schema: `_stateSchema`, the store, the file."""


def committed(checkpoint: Path) -> Offset | None:
    """Return a query's committed offset; None if there is none.

    `commits/N` exists once the epoch of `offsets/N` is done.
    """
    done = [int(path.name) for path in _numbered(checkpoint / "commits")]
    return epoch_end(checkpoint, max(done)) if done else None


def epoch_end(checkpoint: Path, epoch: int) -> Offset | None:
    """Return the offset at which an epoch ends; None if it is unknown.

    Spark writes it to `offsets/N` before it starts the epoch.
    """
    try:
        lines = (checkpoint / "offsets" / str(epoch)).read_text().splitlines()
        found: Offset = json.loads(lines[-1])
    except (OSError, ValueError, IndexError):
        return None
    return found


def epoch_rows(checkpoint: Path, epoch: int) -> int | None:
    """Return the number of log rows that an epoch spans; None if it is unknown."""
    end = epoch_end(checkpoint, epoch)
    start = epoch_end(checkpoint, epoch - 1) if epoch else {}
    if end is None or start is None:
        return None
    return sum(seq - start.get(broker, 1) for broker, seq in end.items())


def query_id(checkpoint: Path) -> str | None:
    """Return the id that Spark gave to a query when its checkpoint was created."""
    path = checkpoint / "metadata"
    if not path.exists():
        return None
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str])["id"]


def settle(checkpoint: Path) -> int:
    """Update the paths in the metadata of a moved checkpoint; return how many files were wrong."""
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


def _numbered(directory: Path) -> list[Path]:
    if not directory.exists():
        return []
    return [path for path in directory.iterdir() if path.name.isdecimal()]
