"""Sums of floating-point numbers without rounding: equal however the numbers are grouped.

A double is a whole number divided by a power of two, and so is any sum of doubles. Only the mean is
rounded, once.
"""

from msgspec import Struct


class ExactSum(Struct, frozen=True, gc=False):
    """The sum `units / 2**shift`, in lowest terms."""

    units: int = 0
    shift: int = 0

    @classmethod
    def of(cls, value: float) -> "ExactSum":
        """Return the sum of one finite number."""
        numerator, denominator = value.as_integer_ratio()
        return cls(numerator, denominator.bit_length() - 1)

    def __add__(self, other: "ExactSum") -> "ExactSum":
        """Return the sum of both."""
        shift = max(self.shift, other.shift)
        units = (self.units << (shift - self.shift)) + (other.units << (shift - other.shift))
        if not units:
            return ExactSum()
        spare = min(shift, (units & -units).bit_length() - 1)
        return ExactSum(units >> spare, shift - spare)

    def mean(self, count: int) -> float:
        """Return the mean of `count` numbers with this sum, rounded once."""
        return self.units / (count << self.shift)
