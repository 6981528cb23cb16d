"""Events as columns of a host's own format: an `Event` is made only on access.

For records of plain events, which their columns describe completely: they do not stay, and have no
target and no session of their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from nearcast.core.model.event import Event
from nearcast.core.model.event_batch import EventBatch


class EventColumns(Sequence[Event], ABC):
    """Plain events, each with its time."""

    @property
    @abstractmethod
    def times(self) -> npt.NDArray[np.float64]:
        """The time of each event."""

    @property
    @abstractmethod
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each payload."""

    @abstractmethod
    def part(self, start: int, end: int) -> Self:
        """A contiguous range of the events."""

    @abstractmethod
    def batch(self, attributes: bool = True) -> EventBatch:
        """The events as a batch; without attributes, payloads are not parsed."""
