"""Kinds of rows in the log, and how readers treat unknown ones.

Most kinds record an input of the core: without one, later decisions may be wrong. The others are
informational. Whether a kind matters for decisions follows from its name alone, so that this
release can tell it for kinds that a later one adds: names that begin with `info.` are
informational, and a reader that does not know one skips its rows. At any other unknown kind every
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
TICK = "info.tick"
"""The time at a broker, recorded when the pipeline needs it and nothing else happens."""
NOTICE = "info.notice"
"""A state that the broker told on a topic of its own: of a relationship, or of a watched area."""
INFORMATIONAL = "info."
"""The prefix of all other informational kinds."""

NO_INPUTS = frozenset((ERASED, DELIVERY, GAP, TICK, NOTICE))
"""Kinds that record no input; most are older than the rule for names."""
KINDS = (*(form.__struct_config__.tag for form in get_args(Input)), *sorted(NO_INPUTS))
"""All kinds of rows in this release."""


def is_input(kind: str) -> bool:
    """True if rows of a kind record inputs of the core, so that decisions depend on them."""
    return kind not in NO_INPUTS and not kind.startswith(INFORMATIONAL)


def is_unknown(kind: str) -> bool:
    """True if this release does not know a kind."""
    return form_of(kind) is None and kind not in NO_INPUTS


def unknown_kind(kind: str, seq: int, broker: str) -> UpgradeError:
    """Return the error for a row of an unknown kind that decisions may depend on."""
    return UpgradeError(
        f"row {seq} of {broker or 'the log'} is of kind {kind!r}, which this release does not "
        "know and which may decide who gets what. A later release wrote it: upgrade Nearcast to "
        "read this log"
    )


def check_kinds(batch: pa.RecordBatch) -> None:
    """Raise `UpgradeError` at the first row that only a later release can apply."""
    kinds = batch.column("kind")
    unknown = [kind for kind in pc.unique(kinds).to_pylist() if is_unknown(kind) and is_input(kind)]
    if unknown:
        first = pc.index(pc.is_in(kinds, pa.array(unknown, pa.string())), True).as_py()
        told = {name: batch.column(name)[first].as_py() for name in ("kind", "seq")}
        broker = batch.column("broker")[first].as_py() if "broker" in batch.schema.names else ""
        raise unknown_kind(told["kind"], told["seq"], broker)
