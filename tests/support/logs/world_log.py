"""The log of a virtual broker, as rows."""

from nearcast.store import Gap, Row, rows_of
from nearcast.testing import World


def rows_in(world: World) -> list[Row]:
    rows: list[Row] = []
    for part in world.brokers["broker"].disk.store.log.read():
        assert not isinstance(part, Gap)
        rows += rows_of(part)
    return rows
