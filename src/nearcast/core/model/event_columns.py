"""Events as columns of a host's own: an `Event` of each is made only where somebody asks for it.

For records of plain events, which say all of themselves in their columns: they do not stay, and
have no target and no session of their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from nearcast.core.model.event import Event
from nearcast.core.model.event_batch import EventBatch


class EventColumns(Sequence[Event], ABC):
    """Plain events, each at the time at which it was made."""

    @property
    @abstractmethod
    def times(self) -> npt.NDArray[np.float64]:
        """When each was made."""

    @property
    @abstractmethod
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each payload."""

    @abstractmethod
    def part(self, start: int, end: int) -> Self:
        """Some of them that follow each other."""

    @abstractmethod
    def batch(self, attributes: bool = True) -> EventBatch:
        """The same as matchers take them; without attributes nobody looks into payloads."""
