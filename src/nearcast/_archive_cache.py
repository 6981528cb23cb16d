"""Machine code of kernels that were loaded from an archive, kept for the user of this machine.

On a cluster the package comes as an archive, at another path for every application, and numba
caches nothing of what it cannot find as a file. The code is kept under a digest of the archive
instead, so that each machine compiles a release once.
"""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from numba.core.caching import UserWideCacheLocator

_SUFFIX = ".zip"


class ArchiveCacheLocator(UserWideCacheLocator):  # type: ignore[misc]
    """Says to numba where the code of a function from an archive is kept, and if it is current."""

    def __init__(self, function: Callable[..., Any], source: str) -> None:
        archive, _, inside = source.partition(f"{_SUFFIX}{os.sep}")
        self._digest = _digest(f"{archive}{_SUFFIX}")
        # A path that is the same wherever the archive lies.
        super().__init__(function, os.path.join(os.sep, self._digest, inside))

    def get_source_stamp(self) -> str:
        """Return what the code depends on beside the function itself."""
        return self._digest

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], source: str
    ) -> "ArchiveCacheLocator | None":
        """Return the locator of a function; None if it is from no archive, or nothing is kept."""
        archive, found, _ = source.partition(f"{_SUFFIX}{os.sep}")
        if not found or not os.path.isfile(f"{archive}{_SUFFIX}"):
            return None
        try:
            locator = cls(function, source)
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator


@cache
def _digest(archive: str) -> str:
    """Return a digest of an archive, which does not change while it is used."""
    with open(archive, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
