"""Records: what the log says of an input that was applied."""

from msgspec import Struct

from nearcast.core.model.inputs import Input


class Record(Struct, frozen=True):
    """One line of the log: an input that was applied, and when."""

    seq: int
    ingested: float
    input: Input
