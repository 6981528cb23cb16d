"""Refusals of the filter language: what is wrong, what would be right, and where."""


class LanguageError(ValueError):
    """A filter that cannot be read.

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
        """The number of the line that holds the position, from 1."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """The place in that line, from 1."""
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1

    def __str__(self) -> str:
        if not self.text:
            return self.message
        start = self.text.rfind("\n", 0, self.position) + 1
        end = self.text.find("\n", self.position)
        line = self.text[start : end if end >= 0 else len(self.text)]
        return "\n".join((self.message, *excerpt(line, self.position - start)))


WIDTH = 100


def excerpt(line: str, column: int) -> tuple[str, str]:
    """Return at most `WIDTH` printable characters of the line round the column, and a caret."""
    first = max(0, min(column - WIDTH // 2, len(line) - WIDTH))
    shown = line[first : first + WIDTH]
    # A control character or a lone surrogate would break the terminal or the reason string.
    shown = "".join(c if c.isprintable() else " " for c in shown)
    return shown, " " * (column - first) + "^"
