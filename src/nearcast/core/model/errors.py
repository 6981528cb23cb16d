"""Errors of the model: invalid user input, with a suggestion where possible."""

from collections.abc import Iterable
from difflib import get_close_matches

from nearcast.core.excerpts import pointed
from nearcast.errors import NearcastError

LONGEST_COMPARED = 64
"""Of a longer word only the beginning is compared with known ones."""


class ModelError(NearcastError, ValueError):
    """A position, area, place, context or subject that is not valid."""


class MisreadError(ModelError):
    """A text that cannot be parsed; `position` is the offset in characters."""

    def __init__(self, message: str, text: str, position: int) -> None:
        super().__init__(message, text, position)
        self.message = message
        self.text = text
        self.position = position

    def __str__(self) -> str:
        return pointed(self.message, self.text, self.position)


class PlaceError(ModelError):
    """A place that is unknown, or a name shared by several places."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the known words closest to `word`, or nothing."""
    # The time to compare grows with the word, which may be as long as a message.
    close = get_close_matches(word[:LONGEST_COMPARED], list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
