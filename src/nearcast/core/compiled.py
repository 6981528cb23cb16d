"""How hot loops are compiled.

Every kernel is decorated with `compiled`: machine code cached on disk, no interpreter lock,
IEEE division. Setting ``NUMBA_BOUNDSCHECK=1`` checks every index, which the test suite does
once, in a process of its own. A client without numba computes its few distances in plain Python;
the matcher needs numba.
"""

from collections.abc import Callable
from typing import TypeVar, cast

try:
    import numba
except ModuleNotFoundError:
    numba = None

Function = TypeVar("Function", bound=Callable[..., object])

if numba is not None and not numba.config.CACHE_LOCATOR_CLASSES:
    # Numba's own, and one for a package in an archive, as executors of a cluster have it.
    numba.config.CACHE_LOCATOR_CLASSES = (
        "UserProvidedCacheLocator, InTreeCacheLocator, UserWideCacheLocator, "
        "nearcast._archive_cache.ArchiveCacheLocator"
    )


def compiled(function: Function) -> Function:
    """Compile a function of numbers and arrays to machine code, once per machine."""
    return function if numba is None else _machine_code(function)


def melted(function: Function) -> Function:
    """Compile a function into each of its callers: for parts of one kernel."""
    return function if numba is None else _machine_code(function, inline="always")


def _machine_code(function: Function, **options: str) -> Function:
    try:
        compiler = numba.njit(cache=True, nogil=True, error_model="numpy", **options)
        return cast(Function, compiler(function))
    except RuntimeError:
        # No directory is writable: compile at every start instead of caching.
        compiler = numba.njit(nogil=True, error_model="numpy", **options)
        return cast(Function, compiler(function))
