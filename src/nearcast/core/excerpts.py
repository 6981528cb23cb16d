"""Excerpts: the line of a text with an error, and a caret."""

WIDTH = 100


def pointed(message: str, text: str, position: int) -> str:
    """Return a message with the line of a text that it is about, and a caret."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    return "\n".join((message, *excerpt(line, position - start)))


def excerpt(line: str, column: int) -> tuple[str, str]:
    """Return at most `WIDTH` printable characters of the line round the column, and a caret."""
    first = max(0, min(column - WIDTH // 2, len(line) - WIDTH))
    shown = line[first : first + WIDTH]
    # A control character or a lone surrogate would break the terminal or the reason string.
    shown = "".join(c if c.isprintable() else " " for c in shown)
    return shown, " " * (column - first) + "^"
