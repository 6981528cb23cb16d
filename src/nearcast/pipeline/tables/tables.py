"""The tables of the pipeline: `DIR/tables/NAME/epoch=N/*.parquet`, in versions.

`DIR/tables` is a link to the current version, `DIR/.tables/000001` and so on; it is switched in one
step, so that no reader sees parts of two versions. An epoch is written whole and replaces an
earlier attempt, so that a retry duplicates nothing. Many small epochs are compacted into one.
Writers hold the lock of the tables.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from nearcast.pipeline.errors import PipelineError
from nearcast.store.file_access import make_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMES = (
    "events", "rejects", "contexts", "deliveries", "aggregates", "encounters", "traffic",
)  # fmt: skip
CURRENT, VERSIONS, LOCK, ASIDE = "tables", ".tables", "lock", "aside-"
KEPT_VERSIONS = 2
MERGED_BYTES = 128 << 20
BATCH_ROWS = 65_536
_EPOCH = re.compile(r"epoch=(\d+)")


class TableStatistics(Struct, frozen=True):
    """The size of a table."""

    name: str
    epochs: int
    files: int
    rows: int
    bytes: int


class Tables:
    """The tables under a data directory."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._link = data / CURRENT
        self._versions = data / VERSIONS

    def begin(self) -> None:
        """Make sure there is a current version, and remove leftover files."""
        with self.locked():
            if not self._link.is_symlink():
                if self._link.exists():
                    raise PipelineError(f"{self._link} is there, but not made by this pipeline")
                self.use(self.new_version())
            for left in self._versions.glob(f"{ASIDE}*"):
                shutil.rmtree(left, ignore_errors=True)

    @property
    def version(self) -> Path:
        """The directory of the current version."""
        return self._versions / os.readlink(self._link).rpartition("/")[2]

    def path(self, name: str) -> Path:
        """The path for reading a table."""
        return self._link / name

    def new_version(self) -> Path:
        """Create an empty version that is not current yet."""
        make_directory(self._versions)
        numbers = [int(path.name) for path in self._versions.iterdir() if path.name.isdecimal()]
        path = self._versions / f"{max(numbers, default=0) + 1:06d}"
        make_directory(path)
        return path

    def use(self, version: Path) -> None:
        """Make a version current, in one step; versions that are too old are removed."""
        partial = self._data / f".{CURRENT}.{os.getpid()}"
        partial.unlink(missing_ok=True)
        partial.symlink_to(Path(VERSIONS) / version.name)
        partial.rename(self._link)
        older = sorted(path for path in self._versions.iterdir() if path.name.isdecimal())
        for path in older[:-KEPT_VERSIONS]:
            if path.name != version.name:
                shutil.rmtree(path)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the write lock of the tables."""
        make_directory(self._versions)
        with (self._versions / LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def write(self, name: str, rows: "DataFrame", epoch: int, version: Path | None = None) -> None:
        """Write an epoch of a table, replacing an earlier attempt."""
        where = (self.version if version is None else version) / name
        rows.write.mode("overwrite").option("compression", "zstd").parquet(
            str(where / f"epoch={epoch:012d}")
        )

    @contextlib.contextmanager
    def writing(self) -> Iterator[Path]:
        """Provide a temporary directory for files that are not in place yet."""
        make_directory(self._versions)
        path = Path(tempfile.mkdtemp(prefix=ASIDE, dir=self._versions))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def put(self, epoch: int, files: Mapping[str, Path | None]) -> None:
        """Put files in place as an epoch of their tables, replacing it; None: no rows."""
        with self.locked():
            for name, path in files.items():
                _put(path, self.version / name, f"epoch={epoch:012d}")

    def has(self, name: str) -> bool:
        """True if a table has an epoch, even one without rows."""
        return bool(_epochs(self.version / name))

    def written(self, name: str) -> int | None:
        """The last epoch of a table; None if it has none."""
        epochs = _epochs(self.version / name)
        return epochs[-1][0] if epochs else None

    def newest(self, name: str, column: str) -> float | None:
        """The maximum of a time column of a table; None if it has no row."""
        found = [
            pq.read_table(path, columns=[column], partitioning=None)[column]
            for _, epoch in _epochs(self.version / name)
            for path in _files(epoch)
        ]
        times = [pc.max(column).as_py() for column in found]
        return max((time for time in times if time is not None), default=None)

    def copied(self, but: Collection[str] = ()) -> Path:
        """Create a version with the current tables except some; files are hard links."""
        old, new = self.version, self.new_version()
        for name in _tables(old):
            if name not in but:
                _compact(old / name, new / name, [])
        return new

    def recent(self, name: str, before: int, most: int) -> list[Path]:
        """The epochs of a table before one, among the `most` preceding numbers."""
        epochs = _epochs(self.version / name)
        return [path for number, path in epochs if before - most <= number < before]

    def compact(self, keep: int = 8, merged_bytes: int = MERGED_BYTES) -> dict[str, int]:
        """Merge all epochs of each table but the last `keep`; return their number by table.

        This makes a new version, whose other files are links to those of the version before. Epochs
        that were merged into `merged_bytes` or more stay as they are: what it costs depends on what
        was written since, not on the size of the table.
        """
        with self.locked():
            old = self.version
            merged = {
                name: _after_large(_epochs(old / name)[: -keep or None], merged_bytes)
                for name in _tables(old)
            }
            merged = {name: epochs for name, epochs in merged.items() if len(epochs) > 1}
            if not merged:
                return {}
            new = self.new_version()
            try:
                for name in _tables(old):
                    _compact(old / name, new / name, merged.get(name, []))
            except BaseException:
                shutil.rmtree(new)
                raise
            self.use(new)
        return {name: len(epochs) for name, epochs in merged.items()}

    def statistics(self) -> list[TableStatistics]:
        """The size of every table."""
        if not self._link.is_symlink():
            return []
        return [_statistics(self.version / name) for name in _tables(self.version)]


def _put(file: Path | None, table: Path, epoch: str) -> None:
    """Move a file into place as an epoch; readers see it complete or not at all."""
    make_directory(table)
    old, new = table / f".{epoch}.old", table / f".{epoch}.new"
    for left in (old, new):
        shutil.rmtree(left, ignore_errors=True)
    if file is not None:
        make_directory(new)
        file.rename(new / file.name)
    with contextlib.suppress(FileNotFoundError):
        (table / epoch).rename(old)
    if file is not None:
        new.rename(table / epoch)
    shutil.rmtree(old, ignore_errors=True)


def _tables(version: Path) -> list[str]:
    return sorted(path.name for path in version.iterdir() if path.is_dir())


def _epochs(table: Path) -> list[tuple[int, Path]]:
    """All complete epochs of a table, oldest first."""
    if not table.exists():
        return []
    found = [(_EPOCH.fullmatch(path.name), path) for path in table.iterdir()]
    return sorted((int(match[1]), path) for match, path in found if match is not None)


def _after_large(epochs: list[tuple[int, Path]], size: int) -> list[tuple[int, Path]]:
    """Return the epochs after the last one that has so many bytes."""
    for place in reversed(range(len(epochs))):
        if sum(path.stat().st_size for path in _files(epochs[place][1])) >= size:
            return epochs[place + 1 :]
    return epochs


def _files(epoch: Path) -> list[Path]:
    return sorted(path for path in epoch.iterdir() if path.name.endswith(".parquet"))


def _compact(old: Path, new: Path, merged: list[tuple[int, Path]]) -> None:
    """Make a table with some epochs merged into one file, under the last of their numbers."""
    make_directory(new)
    together = {path for _, path in merged}
    for _, epoch in _epochs(old):
        if epoch not in together:
            make_directory(new / epoch.name)
            for path in _files(epoch):
                os.link(path, new / epoch.name / path.name)
    files = [path for _, epoch in merged for path in _files(epoch)]
    if not files:
        return
    make_directory(new / merged[-1][1].name)
    schema = pa.unify_schemas([pq.read_schema(path) for path in files])
    target = new / merged[-1][1].name / "part-compacted.parquet"
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for path in files:
            # In batches: a table may be larger than memory.
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(BATCH_ROWS):
                    writer.write_table(pa.Table.from_batches([batch]).cast(schema))


def _statistics(table: Path) -> TableStatistics:
    epochs = _epochs(table)
    files = [path for _, epoch in epochs for path in _files(epoch)]
    rows = sum(pq.read_metadata(path).num_rows for path in files)
    size = sum(path.stat().st_size for path in files)
    return TableStatistics(table.name, len(epochs), len(files), rows, size)
