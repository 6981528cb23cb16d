"""Interning: equal values share one small number for as long as somebody uses them."""

from collections.abc import Hashable, ItemsView, Sequence, ValuesView
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Value = TypeVar("Value", bound=Hashable)


class InternTable(Generic[Value]):
    """Numbers for values, counted by their users and given out again when nobody is left."""

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}
        self._values: list[Value | None] = []
        self._users: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def capacity(self) -> int:
        """One more than the largest number given out so far."""
        return len(self._values)

    def acquire(self, value: Value) -> int:
        """The number of a value, with one more user."""
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
        """One more user for a number in use."""
        self._users[number] += 1
        return number

    def get(self, value: Value) -> int | None:
        """The number of a value that is in use."""
        return self._numbers.get(value)

    def numbers_of(self, values: Sequence[Value]) -> npt.NDArray[np.int32]:
        """The number of each value, -1 where nobody uses it."""
        get = self._numbers.get
        return np.array([get(value, -1) for value in values], np.int32)

    def items(self) -> ItemsView[Value, int]:
        """All values in use with their numbers."""
        return self._numbers.items()

    def numbers(self) -> ValuesView[int]:
        """All numbers in use."""
        return self._numbers.values()

    def value(self, number: int) -> Value:
        """The value behind a number in use."""
        value = self._values[number]
        assert value is not None
        return value

    def release(self, number: int) -> bool:
        """One user less; True if it was the last, and the number is free."""
        self._users[number] -= 1
        if self._users[number]:
            return False
        del self._numbers[self.value(number)]
        self._values[number] = None
        self._free.append(number)
        return True
