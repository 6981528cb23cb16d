"""Lists of values as Arrow columns, built from buffers.

Arrow's own conversion checks whether each list is a pandas object, and imports pandas for that: a
fifth of a second and tens of megabytes that a broker does not need otherwise.
"""

from collections.abc import Sequence, Sized
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Lengths = np.ndarray[tuple[int], np.dtype[np.int64]]


def column(values: Sequence[object], form: pa.DataType) -> pa.Array:
    """Return values as a column of numbers, text or bytes; None becomes null."""
    validity, nulls = None, 0
    if None in values:
        validity, nulls = _validity(values)
        if nulls == len(values):
            return pa.nulls(nulls, form)
    if pa.types.is_string(form):
        words: Sequence[str] = [value or "" for value in values] if nulls else values  # type: ignore[misc,assignment]
        data, lengths = _texts(words)
    elif pa.types.is_binary(form):
        present: Sequence[bytes] = [value or b"" for value in values] if nulls else values  # type: ignore[misc,assignment]
        data, lengths = b"".join(present), _lengths(present)
    else:
        # Not `value or 0`: that would lose the sign of -0.0.
        filled = values if not nulls else [0 if value is None else value for value in values]
        buffers = [validity, pa.py_buffer(np.array(filled, form.to_pandas_dtype()))]
        return pa.Array.from_buffers(form, len(values), buffers, nulls)
    buffers = [validity, _offsets(lengths), pa.py_buffer(data)]
    return pa.Array.from_buffers(form, len(values), buffers, nulls)


def from_numpy(values: "npt.NDArray[np.int32] | npt.NDArray[np.int64]") -> pa.Array:
    """Return integers as a column, without copying them."""
    form = pa.int32() if values.dtype == np.int32 else pa.int64()
    return pa.Array.from_buffers(form, len(values), [None, pa.py_buffer(values)], 0)


def pairs(values: Sequence[Sequence[tuple[str, str]]], form: pa.DataType) -> pa.Array:
    """Return a column of lists of (name, value); an empty list is null."""
    flat = list(chain.from_iterable(values))
    if not flat:
        return pa.nulls(len(values), form)
    item = form.value_type
    children = [
        column([name for name, _ in flat], item.field(0).type),
        column([value for _, value in flat], item.field(1).type),
    ]
    inner = pa.Array.from_buffers(item, len(flat), [None], 0, children=children)
    validity, nulls = _validity([each or None for each in values])
    buffers = [validity, _offsets(_lengths(values))]
    return pa.Array.from_buffers(form, len(values), buffers, nulls, children=[inner])


def lists(values: Sequence[Sequence[str] | None]) -> pa.Array:
    """Return a column of lists of texts; None becomes null."""
    present = [value or () for value in values]
    validity, nulls = _validity(values)
    texts = column(list(chain.from_iterable(present)), pa.string())
    buffers = [validity, _offsets(_lengths(present))]
    form = pa.list_(pa.string())
    return pa.Array.from_buffers(form, len(values), buffers, nulls, children=[texts])


def integers_of(values: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return a column of 64-bit integers without nulls as a numpy array."""
    start = values.offset
    return np.frombuffer(values.buffers()[1], np.int64, len(values) + start)[start:]


def _texts(values: Sequence[str]) -> tuple[bytes, Lengths]:
    joined = "".join(values)
    data = joined.encode()
    if len(data) == len(joined):
        return data, _lengths(values)
    return data, _lengths([value.encode() for value in values])


def _lengths(values: Sequence[Sized]) -> Lengths:
    return np.fromiter(map(len, values), np.int64, len(values))


def _validity(values: Sequence[object]) -> tuple[pa.Buffer, int]:
    present = np.array([value is not None for value in values], np.bool_)
    bits = np.packbits(present, bitorder="little")
    return pa.py_buffer(bits), len(present) - int(present.sum())


def _offsets(lengths: Lengths) -> pa.Buffer:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    assert offsets[-1] < 1 << 31, "a column of a segment holds less than 2 GiB"
    return pa.py_buffer(offsets.astype(np.int32))
