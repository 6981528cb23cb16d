"""Interning: equal values share one small number while they have users."""

from collections.abc import Hashable, ItemsView, Sequence, ValuesView
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Value = TypeVar("Value", bound=Hashable)


class InternTable(Generic[Value]):
    """Numbers for values, with use counts; the number of an unused value is reused."""

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}
        self._values: list[Value | None] = []
        self._users: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def capacity(self) -> int:
        """One more than the largest number allocated so far."""
        return len(self._values)

    def acquire(self, value: Value) -> int:
        """The number of a value, with its use count incremented."""
        number = self._numbers.get(value)
        if number is not None:
            self._users[number] += 1
            return number
        if self._free:
            number = self._free.pop()
            self._values[number] = value
            self._users[number] = 1
        else:
            number = len(self._values)
            self._values.append(value)
            self._users.append(1)
        self._numbers[value] = number
        return number

    def acquire_again(self, number: int) -> int:
        """Increment the use count of a number in use."""
        self._users[number] += 1
        return number

    def get(self, value: Value) -> int | None:
        """The number of a value, None if it is not in use."""
        return self._numbers.get(value)

    def numbers_of(self, values: Sequence[Value]) -> npt.NDArray[np.int32]:
        """The number of each value, -1 where it is not in use."""
        get = self._numbers.get
        return np.array([get(value, -1) for value in values], np.int32)

    def items(self) -> ItemsView[Value, int]:
        """All values in use with their numbers."""
        return self._numbers.items()

    def numbers(self) -> ValuesView[int]:
        """All numbers in use."""
        return self._numbers.values()

    def value(self, number: int) -> Value:
        """The value of a number in use."""
        value = self._values[number]
        assert value is not None
        return value

    def values(self, numbers: Sequence[int]) -> list[Value]:
        """The values of numbers in use."""
        values = self._values
        return [values[number] for number in numbers]  # type: ignore[misc]  # they are in use

    def release(self, number: int) -> bool:
        """Decrement the use count; True if the number was freed."""
        self._users[number] -= 1
        if self._users[number]:
            return False
        del self._numbers[self.value(number)]
        self._values[number] = None
        self._free.append(number)
        return True
