"""Where compiled kernels are kept.

Beside their sources, as numba would; where those cannot be written to, in the user's cache
directory; where that cannot be either, in a directory for temporary files that only this user can
read and write, because numba runs what it finds there. Programs choose before they import numba,
through ``NUMBA_CACHE_DIR``, which processes that they start inherit.
"""

import os
import stat
import tempfile
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"
PACKAGE = Path(__file__).parent


def choose() -> str | None:
    """Make numba use a directory that can be written to; return what to tell the user, if any."""
    if os.environ.get(VARIABLE) or is_writable(PACKAGE / "core" / "__pycache__"):
        return None
    kept = user_cache() / "nearcast" / "kernels"
    if is_writable(kept):
        os.environ[VARIABLE] = str(kept)
        return None
    home = f"Neither {PACKAGE} nor {kept} can be written to"
    advice = f"set {VARIABLE} to a directory that can be, or starting takes a minute each time"
    passing = Path(tempfile.gettempdir()) / f"nearcast-kernels-{os.getuid()}"
    if is_private(passing):
        os.environ[VARIABLE] = str(passing)
        return f"{home}: compiled kernels are in {passing} for now. To keep them, {advice}."
    return f"{home}: compiled kernels are not kept; {advice}."


def user_cache() -> Path:
    """Return the directory for what a user's programs can make again."""
    named = os.environ.get("XDG_CACHE_HOME")
    return Path(named) if named else Path(os.path.expanduser("~")) / ".cache"


def is_writable(directory: Path) -> bool:
    """Whether files can be made in a directory, which is made if need be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return directory.is_dir() and os.access(directory, os.W_OK | os.X_OK)


def is_private(directory: Path) -> bool:
    """Whether a directory, made if need be, is this user's alone."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError:
        return False
    mine = found.st_uid == os.getuid() and not found.st_mode & 0o077
    return stat.S_ISDIR(found.st_mode) and mine and os.access(directory, os.W_OK)
