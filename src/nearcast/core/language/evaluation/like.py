"""LIKE patterns: ``%`` is any text, ``_`` any one character, a backslash makes the next one plain.

A pattern is split at its ``%`` into runs. The first must match at the start, the last at the end,
and those between are found one after another, each as far left as possible; backtracking can
never help. Runs without ``_`` are found by the standard search, the others by comparing the whole
text with one character of the run after the other, in arrays. Texts are bounded (`MAX_MATCHED`),
and what is folded once is remembered, so that many filters over one event share the work.
"""

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_MATCHED = 16_384
"""Longer texts are unknown to LIKE, CASEI and ACCENTI: what they cost grows with the text."""


class Run(Struct, frozen=True):
    """Consecutive characters of a pattern; None is ``_``."""

    characters: tuple[str | None, ...]

    @property
    def plain(self) -> str | None:
        """The run as a text, if it has no ``_``."""
        found = [c for c in self.characters if c is not None]
        return "".join(found) if len(found) == len(self.characters) else None

    def at(self, text: str, start: int) -> bool:
        """Return whether the run matches at an index of the text."""
        end = start + len(self.characters)
        return start >= 0 and end <= len(text) and self.fits(text[start:end])

    def fits(self, piece: str) -> bool:
        """Return whether the run matches a piece of its own length."""
        return all(c is None or c == p for c, p in zip(self.characters, piece, strict=True))

    def find(self, text: str, start: int, end: int) -> int:
        """Return the end of the first match within ``text[start:end]``, or -1."""
        size = len(self.characters)
        plain = self.plain
        if plain is not None:
            found = text.find(plain, start, end)
            return found + size if found >= 0 else -1
        codes = _codes(text)[start:end]
        begins = len(codes) - size + 1
        fits: NDArray[np.bool_] | None = None
        for offset, character in enumerate(self.characters):
            if character is not None and begins > 0:
                found_here = codes[offset : offset + begins] == ord(character)
                fits = found_here if fits is None else fits & found_here
                if not fits.any():
                    return -1
        if begins <= 0:
            return -1
        return start + size + (0 if fits is None else int(fits.argmax()))


class Pattern(Struct, frozen=True):
    """The runs between the ``%`` of a pattern."""

    runs: tuple[Run, ...]

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        first, last = self.runs[0], self.runs[-1]
        if len(self.runs) == 1:
            return len(text) == len(first.characters) and first.fits(text)
        start, end = len(first.characters), len(text) - len(last.characters)
        if start > end or not first.at(text, 0) or not last.at(text, end):
            return False
        for run in self.runs[1:-1]:
            start = run.find(text, start, end)
            if start < 0:
                return False
        return True


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str, foldings: tuple[str, ...] = ()) -> Pattern:
    """Compile a pattern; its plain characters are folded, innermost folding first."""
    runs: list[list[str | None]] = [[]]
    plain = False
    for c in pattern:
        if plain or c not in "%_\\":
            runs[-1].extend(folded(c, foldings))
            plain = False
        elif c == "%":
            runs.append([])
        elif c == "_":
            runs[-1].append(None)
        else:
            plain = True
    if plain:
        runs[-1].append("\\")
    inner = [run for run in runs[1:-1] if run]
    kept = [runs[0], *inner, runs[-1]] if len(runs) > 1 else runs
    return Pattern(tuple(Run(tuple(run)) for run in kept))


@lru_cache(maxsize=64)
def _codes(text: str) -> "NDArray[np.uint32]":
    """Return the code points of a text."""
    # Imported here: a client that only parses filters need not have it.
    import numpy as np

    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


@lru_cache(maxsize=256)
def folded(text: str, foldings: tuple[str, ...]) -> str:
    """Return a text without its case (casei), without its accents (accenti), or both."""
    for folding in foldings:
        if folding == "casei":
            text = text.casefold()
        else:
            decomposed = unicodedata.normalize("NFKD", text)
            text = "".join(c for c in decomposed if not unicodedata.combining(c))
    return text
