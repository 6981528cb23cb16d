"""Where nodes are, round a ward that hides those in it, and who sees whom."""

from nearcast.core.engine.engine import Engine
from nearcast.core.model import (
    Box,
    Position,
)

HERE = Position(53.35, -6.26)

WARD = Box(53.349, -6.261, 53.351, -6.259)


def sees(engine: Engine, viewer: str, other: str) -> int:
    return engine.matcher.world.may_see(viewer, other)
