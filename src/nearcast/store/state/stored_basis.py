"""The basis of a queued message's priority as bytes: truths of atoms, with the filter they are of.

The filter and the vector are stored with the message: the subscription may be gone when it is read.
"""

from functools import lru_cache

import msgspec
from msgspec import Struct

from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.form_function import FormFunction, Truths
from nearcast.core.adaptation.priority_basis import PriorityBasis
from nearcast.core.adaptation.subscriber_priorities import JudgedSubscription, WeightedForm
from nearcast.core.language import Filter
from nearcast.store.rows.row_json import filter_from_json, filter_json


class _Judged(Struct, array_like=True):
    id: str
    where: bytes
    """The filter as JSON; empty without one."""
    levels: tuple[int, ...]
    true: int
    false: int


class _Basis(Struct, array_like=True):
    judged: list[_Judged]
    said: int | None = None
    raises: bool = False


_DECODER = msgspec.msgpack.Decoder(_Basis)


def encoded_basis(basis: PriorityBasis | None) -> bytes:
    """Return a basis as bytes; empty for None."""
    if basis is None:
        return b""
    judged = [
        _Judged(
            each.id, weighted_filter_bytes(each.weighted.form.filter), each.weighted.levels,
            each.truths.true, each.truths.false,
        )
        for each in basis.judged
    ]  # fmt: skip
    return msgspec.msgpack.encode(_Basis(judged, basis.said, basis.raises))


def decoded_basis(stored: bytes) -> PriorityBasis | None:
    """Return the basis that `encoded_basis` wrote; None for empty bytes.

    Also None if a vector does not fit its filter: the message keeps the priority that it had.
    """
    if not stored:
        return None
    found = _DECODER.decode(stored)
    try:
        judged = tuple(
            JudgedSubscription(
                each.id, weighted_form(each.where, each.levels), Truths(each.true, each.false)
            )
            for each in found.judged
        )
    except AdaptationError:
        return None
    return PriorityBasis(judged, found.said, found.raises)


@lru_cache(256)
def weighted_filter_bytes(where: Filter | None) -> bytes:
    """Return a filter as bytes; empty for None."""
    return b"" if where is None else msgspec.json.encode(filter_json(where))


@lru_cache(256)
def weighted_form(where: bytes, levels: tuple[int, ...]) -> WeightedForm:
    """Return the form of a filter as `weighted_filter_bytes` wrote it, with a vector.

    Raises `AdaptationError` if the vector does not fit.
    """
    filter_ = filter_from_json(msgspec.json.decode(where)) if where else None
    return WeightedForm(FormFunction(filter_), levels)
