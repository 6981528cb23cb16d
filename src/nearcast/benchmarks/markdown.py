"""Tables in Markdown, for reports and documents."""

from collections.abc import Iterable


def markdown_table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table; what its cells contain is not escaped."""
    lines = [heading, ("---",) * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
