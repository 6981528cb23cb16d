"""Permissions of a broker's files: its owner alone, and optionally a group.

Directories are 0700 and files 0600, whatever the umask. A configured group may read segments of the
log and tables of the pipeline: their directories are 2750, so that new files in them belong to the
group, and files are 0640. State, passwords, tokens and checkpoints stay private.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from nearcast.store.errors import StoreError, told

PRIVATE, SHARED = 0o700, 0o2750
PRIVATE_FILE, SHARED_FILE = 0o600, 0o640
_SHARED_BITS = stat.S_ISGID | stat.S_IRGRP | stat.S_IXGRP


class FileAccess(Struct, frozen=True):
    """The id of the group that may read segments and tables; None: only the owner."""

    group: int | None = None

    @property
    def umask(self) -> int:
        """The umask for files that other programs create for the process, such as Spark."""
        return 0o077 if self.group is None else 0o027

    def prepare(self, data: Path) -> None:
        """Set the modes of a data directory, and of files that an earlier run left in it."""
        with told(data, "setting who may read it"):
            make_directory(data)
            log_directories = list(data.glob("brokers/*/log"))
            # Releases before Delta Lake kept versions of the tables in `.tables`.
            tables = [data / "tables", *(each for each in [data / ".tables"] if each.exists())]
            holders = [data / "brokers", *data.glob("brokers/*"), *log_directories]
            if self.group is None:
                self._set(PRIVATE, *holders, *tables, data / "checkpoints")
                return
            old_link = (data / "tables").is_symlink()
            for path in (data / "brokers", *([] if old_link else tables[:1]), data / "checkpoints"):
                make_directory(path)
            self._set(SHARED, data, *holders, *tables)
            self._set(PRIVATE, data / "checkpoints")
            for top in (*log_directories, *tables):
                for path in _below(top):
                    self._set(SHARED if path.is_dir() else SHARED_FILE, path)

    def _set(self, mode: int, *paths: Path) -> None:
        for path in paths:
            if path.is_symlink() or not path.exists():
                continue
            found = path.stat()
            group = self.group if mode in (SHARED, SHARED_FILE) else None
            if group is not None and found.st_gid != group:
                os.chown(path, -1, group)
                found = path.stat()
            if stat.S_IMODE(found.st_mode) != mode:
                # After the change of group, which clears the setgid bit.
                path.chmod(mode)


def file_access(group: str) -> FileAccess:
    """Return the access for a setting: the name or number of a group, or empty."""
    if not group:
        return FileAccess()
    if group.isdecimal():
        return FileAccess(int(group))
    try:
        import grp

        return FileAccess(grp.getgrnam(group).gr_gid)
    except (ImportError, KeyError):
        raise StoreError(
            f"data.group: there is no group {group!r} on this system; make it, or leave the "
            "setting out"
        ) from None


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents: private, or shared if the parent is."""
    if path.is_dir():
        return
    if path.parent != path:
        make_directory(path.parent)
    path.mkdir(PRIVATE, exist_ok=True)
    if is_shared(path.parent):
        os.chown(path, -1, path.parent.stat().st_gid)
        path.chmod(SHARED)


def create_file(path: Path) -> int:
    """Create or truncate a file, private or shared like its directory; return a descriptor."""
    return _opened(path, os.O_TRUNC)


def append_to_file(path: Path) -> int:
    """Open or create a file for appending, private or shared like its directory."""
    return _opened(path, os.O_APPEND)


def _opened(path: Path, flag: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flag
    descriptor = os.open(path, flags, PRIVATE_FILE)
    try:
        if is_shared(path.parent):
            os.fchown(descriptor, -1, path.parent.stat().st_gid)
            os.fchmod(descriptor, SHARED_FILE)
        else:
            os.fchmod(descriptor, PRIVATE_FILE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def keep_private(path: Path) -> None:
    """Make a file readable only by its owner; create it if it is missing."""
    try:
        # Not opened: closing a database that is open elsewhere would release its locks.
        found = path.stat()
    except FileNotFoundError:
        os.close(create_file(path))
        path.chmod(PRIVATE_FILE)
        return
    # If another user owns it, its mode is that user's choice.
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != PRIVATE_FILE:
        path.chmod(PRIVATE_FILE)


def is_shared(directory: Path) -> bool:
    """Return True if files created in a directory are shared with its group."""
    return directory.stat().st_mode & _SHARED_BITS == _SHARED_BITS


def _below(top: Path) -> Iterator[Path]:
    for directory, directories, files in os.walk(top):
        for name in (*directories, *files):
            yield Path(directory, name)
