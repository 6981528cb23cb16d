"""A bound on what a decoder may produce, checked before anything is allocated."""

from nearcast.wire.encoding.errors import DecodingError

LARGEST_DECODED = 4 << 20
"""The largest decoded payload in bytes: no payload of a broker is larger than 1 MiB."""
MOST_VALUES = 1 << 19
"""The limit of values in a decoded table."""


class Budget:
    """The number of values and bytes that may still be produced."""

    def __init__(self, size: int = LARGEST_DECODED, values: int = MOST_VALUES) -> None:
        self._bytes = size
        self._values = values

    def spend(self, values: int, size: int) -> None:
        """Take values of some size; raise `DecodingError` if the rest does not suffice."""
        self._values -= values
        self._bytes -= values * size
        if self._values < 0 or self._bytes < 0:
            raise DecodingError("the payload would become too large when decoded")
