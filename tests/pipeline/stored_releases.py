"""What releases left, stored as files: read, compared, packed and unpacked.

`tests/pipeline/releases/VERSION` has a data directory in an archive, what is in it as JSON, and
the settings that it was made with.
"""

import io
import json
import lzma
import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from nearcast.pipeline.jobs.spark_checkpoints import committed
from nearcast.store import LogReader, Row, broker_directory
from tests.support.logs.broker_log import read_log
from tests.support.logs.table_rows import rows_before_delta

RELEASES = Path(__file__).with_name("releases")
ARCHIVE, CONTENT, SETTINGS_FILE = "data.tar.xz", "content.json", "nearcast.toml"
BROKERS = ("east", "west")
QUERIES = ("tables", "gather", "movement")
LEFT_OUT = ("lock", "pipeline.token", "address.json", "control.sock", "status.json")
"""What says where it was made, opens something, or is of no use to another life."""
HOST = "localhost"
"""The name of the host in what is stored: any, and one that is known everywhere."""
OF_A_MACHINE = re.compile(rb"/(home|Users|root|tmp|var|work|private|mnt|srv|opt|usr)/[\w.-]")
"""The beginning of a path that only one machine has."""


def log_of(data: Path, broker: str) -> Path:
    """Return where a broker's log is."""
    return broker_directory(data, broker) / "log"


def content_of(data: Path) -> dict[str, Any]:
    """Return what a data directory holds, in the words of JSON."""
    logs = {broker: [row_json(row) for row in read_log(data, broker)] for broker in BROKERS}
    tables = {
        name: sorted(map(in_json, rows), key=json.dumps)
        for name, rows in rows_before_delta(data).items()
    }
    reached = {query: committed(data / "checkpoints" / query) for query in QUERIES}
    return {"logs": logs, "tables": tables, "reached": reached}


def row_json(row: Row) -> dict[str, Any]:
    """Return a row of the log by the names of its columns, but for those that are empty."""
    fields = zip(row.__struct_fields__, msgspec.structs.astuple(row), strict=True)
    return {name: in_json(value) for name, value in fields if value not in (None, ())}


def in_json(value: object) -> Any:  # noqa: ANN401
    """Return a value in the words of JSON; bytes are text, one character each."""
    match value:
        case bytes():
            return value.decode("latin-1")
        case dict():
            return {name: in_json(each) for name, each in value.items()}
        case list() | tuple():
            return [in_json(each) for each in value]
    return value


def all_reached(data: Path) -> bool:
    """Whether every query has dealt with all that is in the logs."""
    ends = {broker: LogReader(log_of(data, broker)).segments() for broker in BROKERS}
    for query in QUERIES:
        offset = committed(data / "checkpoints" / query) or {}
        for broker, segments in ends.items():
            if segments and offset.get(broker, 1) <= segments[-1].last_seq:
                return False
    return True


# Packing


def prune(data: Path) -> None:
    """Remove what is of no use elsewhere."""
    for path in list(data.rglob("*")):
        if path.name in LEFT_OUT or path.is_socket() or path.name.endswith(".crc"):
            path.unlink()


def neutralise(data: Path) -> None:
    """Let the notes that Spark keeps beside its state name files as if they were in `/data`."""
    for note in data.glob("checkpoints/*/state/*/_metadata/v2/*"):
        note.write_text(note.read_text().replace(f"file:{data.resolve()}/", "file:/data/"))


def machine_paths(data: Path) -> Iterator[tuple[str, bytes]]:
    """Yield where a path of some machine is found in files, also in zipped ones."""
    for path in sorted(data.rglob("*")):
        if not path.is_file():
            continue
        for name, content in _contents(path):
            if found := OF_A_MACHINE.search(content):
                yield name, content[found.start() : found.start() + 80]


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    yield str(path), path.read_bytes()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield f"{path} {name}", archive.read(name)


def pack(data: Path, target: Path) -> None:
    """Pack a directory; the same files give the same bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for path in sorted([data, *data.rglob("*")]):
            member = archive.gettarinfo(path, str(path))
            member.uid = member.gid = member.mtime = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() else 0o644
            if member.isfile():
                with path.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
    target.write_bytes(lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(release: Path, where: Path) -> Path:
    """Unpack a release into a directory with its settings, and return the data directory."""
    shutil.copy(release / SETTINGS_FILE, where)
    with tarfile.open(release / ARCHIVE) as archive:
        archive.extractall(where, filter="data")
    return where / "data"
