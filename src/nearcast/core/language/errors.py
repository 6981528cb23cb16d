"""Errors of the filter language: the problem, a correction and the position."""

from nearcast.core.excerpts import pointed
from nearcast.errors import NearcastError


class LanguageError(NearcastError, ValueError):
    """A filter that cannot be parsed.

    `position` counts characters from the start of `text`; for a JSON value it is 0 and the
    message begins with the path of the member, such as ``$.args[1]``.
    """

    def __init__(self, message: str, text: str = "", position: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.position = position

    @property
    def line(self) -> int:
        """The number of the line at the position, from 1."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """The column in that line, from 1."""
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1

    def __str__(self) -> str:
        return pointed(self.message, self.text, self.position) if self.text else self.message
