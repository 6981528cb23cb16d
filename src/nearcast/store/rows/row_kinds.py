"""Kinds of rows in the log, and what a reader does about one that it has never heard of.

Most kinds record an input of the core: without one of them, what is decided later may be wrong.
The others only inform. Whether a kind decides anything can be told from its name alone, so that
this release can tell it for kinds that a later one adds: a name that begins with `info.` decides
nothing, and a reader that does not know it passes over its rows. At any other unknown kind every
reader stops and asks for an upgrade.
"""

from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc

from nearcast.core.model.input_form import form_of
from nearcast.core.model.inputs import Input
from nearcast.store.errors import UpgradeError

ERASED = "erased"
DELIVERY = "delivery"
GAP = "gap"
INFORMATIONAL = "info."
"""What the names of all other kinds begin with that decide nothing."""

NO_INPUTS = frozenset((ERASED, DELIVERY, GAP))
"""Kinds of rows that record none; they are older than the rule for names."""
KINDS = (*(form.__struct_config__.tag for form in get_args(Input)), *sorted(NO_INPUTS))
"""All that a row of the log can be in this release."""


def is_input(kind: str) -> bool:
    """Whether rows of a kind record inputs of the core, so that they decide something."""
    return kind not in NO_INPUTS and not kind.startswith(INFORMATIONAL)


def is_unknown(kind: str) -> bool:
    """Whether this release has never heard of a kind."""
    return form_of(kind) is None and kind not in NO_INPUTS


def unknown_kind(kind: str, seq: int, broker: str) -> UpgradeError:
    """Return the refusal of a row of an unknown kind that may decide something."""
    return UpgradeError(
        f"row {seq} of {broker or 'the log'} is of kind {kind!r}, which this release does not "
        "know and which may decide who gets what. A later release wrote it: upgrade Nearcast to "
        "read this log"
    )


def check_kinds(batch: pa.RecordBatch) -> None:
    """Raise `UpgradeError` at the first row that only a later release knows how to apply."""
    kinds = batch.column("kind")
    unknown = [kind for kind in pc.unique(kinds).to_pylist() if is_unknown(kind) and is_input(kind)]
    if unknown:
        first = pc.index(pc.is_in(kinds, pa.array(unknown, pa.string())), True).as_py()
        told = {name: batch.column(name)[first].as_py() for name in ("kind", "seq")}
        broker = batch.column("broker")[first].as_py() if "broker" in batch.schema.names else ""
        raise unknown_kind(told["kind"], told["seq"], broker)
