"""The documents, and the fenced blocks in them."""

import re
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]

DOCUMENTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("docs/**/*.md"))
    if path.name != "CHANGELOG.md"
)

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*(\w*)[^\n`]*$")

BROKER = "mqtt://localhost"

ARROW = re.compile(r"# -> ?(.*)$", re.MULTILINE)


class Block(Struct):
    """A fenced block: its language, its lines, and where they begin in the file (from 1)."""

    language: str
    line: int
    text: str
    follows: bool
    """Nothing but empty lines stands between the block before and this one."""


def blocks(document: str) -> list[Block]:
    """Return the fenced blocks of a document."""
    found: list[Block] = []
    inside: Block | None = None
    fence, gap = "", True
    for number, line in enumerate(document.splitlines(), 1):
        match = FENCE.match(line)
        if inside is None and match:
            fence = match[1]
            inside, gap = Block(match[2], number + 1, "", not gap), False
            found.append(inside)
        elif inside is not None and line.strip() == fence:
            inside = None
        elif inside is not None:
            inside.text += line + "\n"
        elif line.strip():
            gap = True
    return found


def expected_output(block: Block, following: Block | None) -> list[str] | None:
    """Return the lines that a page says a block prints; None if it does not say."""
    if following is not None and following.language == "text" and following.follows:
        return [line.rstrip() for line in following.text.rstrip().splitlines()]
    return [match.strip() for match in ARROW.findall(block.text)] or None


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
