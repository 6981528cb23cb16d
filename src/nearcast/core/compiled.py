"""How hot loops are compiled.

Every kernel is decorated with `compiled`: machine code cached on disk, no interpreter lock,
IEEE division. Setting ``NUMBA_BOUNDSCHECK=1`` checks every index, which the test suite does
once, in a process of its own.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile a function of numbers and arrays to machine code, once per machine."""
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))

