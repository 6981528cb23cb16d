"""Records of applied inputs in the log."""

from msgspec import Struct

from nearcast.core.model.inputs import Input


class Record(Struct, frozen=True):
    """One record of the log: an applied input, with its time."""

    seq: int
    ingested: float
    input: Input
