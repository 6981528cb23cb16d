"""Excerpts: the line of a text with an error, and a caret; the beginning of a long reason."""

WIDTH = 100
LONGEST_REASON = 200


def reason(error: Exception) -> str:
    """Return the text of another library's error, truncated.

    That of a JSON parser has the path to the problem, which is as long as the value is deep.
    """
    text = str(error)
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."


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
