"""The words of a gathering rule, read one by one, with errors that say what would be right."""

import re
from typing import TypeVar

from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.geometry.position import parse_number, plain, shown

LONGEST_S = 7 * 86_400.0
_TOKEN = re.compile(r"'([^']*)'|(\S+)")
W = TypeVar("W", bound=str)


class RuleWords:
    """The words of a rule, read one by one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = list(_TOKEN.finditer(text))
        self._at = 0

    def more(self) -> bool:
        """True if words are left."""
        return self._at < len(self._found)

    def peek(self) -> str | None:
        """The next word, without reading it; None at the end, or if it is quoted."""
        return self._found[self._at][2] if self.more() else None

    def error(self, problem: str) -> ModelError:
        """Return an error that quotes the rule."""
        return ModelError(f"{shown(self._text)}: {problem}")

    def one_of(self, words: tuple[W, ...], what: str) -> W:
        """Read a word that must be one of these."""
        word = self._next()
        for known in words:
            if word == known:
                return known
        choice = " or ".join(words)
        got = "nothing" if word is None else shown(word)
        raise self.error(f"{what} {choice}, not {got}{did_you_mean(word or '', words)}")

    def amount(self, what: str, unit: str, whole: bool = False, most: float = LONGEST_S) -> float:
        """Read a number above 0."""
        word = self._next()
        if word is None:
            raise self.error(f"{what} {unit}")
        try:
            value = parse_number(word, what)
        except ModelError:
            raise self.error(f"{what} {unit}, not {shown(word)}") from None
        if value <= 0.0 or (whole and value != int(value)):
            raise self.error(f"{what} {unit} above 0, not {shown(word)}")
        if value > most:
            raise self.error(f"{what} {unit} up to {plain(most)}, not {shown(word)}")
        return value

    def name(self, keywords: tuple[str, ...]) -> str | None:
        """Read a name if there is one; a name that is a keyword must be quoted."""
        if not self.more() or self._found[self._at][2] in keywords:
            return None
        name = self._next()
        if not name:
            raise self.error("the name between the quotes is empty")
        return name

    def _next(self) -> str | None:
        if not self.more():
            return None
        found = self._found[self._at]
        self._at += 1
        return found[1] if found[2] is None else found[2]
