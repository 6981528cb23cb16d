"""The tokens of CQL2 text: names, quoted names, numbers, strings and signs, with positions."""

import difflib
import math
import re

from msgspec import Struct

from nearcast.core.language.errors import LanguageError
from nearcast.core.language.limits import MAX_TEXT

# Every alternative matches without backtracking, so tokenizing is linear in the text.
WORD = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>(?:[^\W\d]|:)[\w.:]*)
      | (?P<string>'(?:[^']|'')*'?)
      | (?P<quoted>"(?:[^"]|"")*"?)
      | (?P<sign><>|!=|<=|>=|[-+*/^%=<>(),])""",
    re.VERBOSE,
)
# NaN and Infinity could be names of properties, but x = NaN is meant as a number.
RESERVED = frozenset(
    (
        *("AND", "OR", "NOT", "LIKE", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE", "DIV"),
        *("NAN", "INFINITY"),
    )
)
WIDTH = 200
NAMES = {"string": "a text in quotes", "quoted": "a name", "name": "a name", "number": "a number"}


class Token(Struct, frozen=True):
    """One token: `text` as written, `value` without quotes, `word` in capitals if it is a name."""

    kind: str
    text: str
    start: int
    value: str = ""

    @property
    def word(self) -> str:
        """The name in capitals, for keywords in any case; empty for other kinds."""
        return self.text.upper() if self.kind == "name" else ""

    def named(self) -> str:
        """Return the token as shown in error messages."""
        if self.kind == "end":
            return "the end of the text"
        return self.text if len(self.text) <= 40 else self.text[:37] + "..."


def tokenize(text: str) -> list[Token]:
    """Split CQL2 text into tokens, the last of kind ``end``."""
    if len(text) > MAX_TEXT:
        raise LanguageError(
            f"The filter is longer than {MAX_TEXT} characters ({len(text)}).", text[:WIDTH]
        )
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        found = WORD.match(text, place)
        if found is None:
            raise LanguageError(unreadable(text[place]), text, place)
        kind = found.lastgroup or ""
        if kind != "space":
            tokens.append(token(kind, found.group(), text, place))
        place = found.end()
    tokens.append(Token("end", "", len(text)))
    return tokens


def token(kind: str, written: str, text: str, place: int) -> Token:
    """Build one token; raise LanguageError if a quote is not closed."""
    if kind not in ("string", "quoted"):
        return Token(kind, written, place, written)
    quote = written[0]
    inner = written[1:-1]
    # An odd number of quotes after the first means that the last is the closing one.
    if len(written) < 2 or written.count(quote) % 2:
        raise LanguageError(f"This {quote} is never closed; add a {quote}.", text, place)
    value = inner.replace(quote * 2, quote)
    check_characters(value, text, place)
    return Token(kind, written, place, value)


def check_characters(value: str, text: str, place: int) -> None:
    """Reject NUL and halves of surrogate pairs, which MQTT allows in no text."""
    for c in value:
        if "\ud800" <= c <= "\udfff":
            raise LanguageError("Half of a surrogate pair is not a character.", text, place)
        if c == "\0":
            raise LanguageError("The character NUL is not allowed.", text, place)


def unreadable(character: str) -> str:
    """Return the error message for a character that starts no token."""
    if character == ";":
        return "';' is not part of CQL2; join conditions with AND or OR."
    if character in "[]{}":
        return f"{character!r} is not part of CQL2 text; lists are written ('a', 'b')."
    if character in "&|":
        return f"{character!r} is not part of CQL2; write AND or OR."
    return f"The character {character!a} means nothing here."


def number(written: str) -> int | float:
    """Return the number in a text; raise ValueError if it exceeds a double."""
    value = float(written)
    if math.isinf(value) or math.isnan(value):
        raise ValueError("The number is too large; numbers go up to 1.797e308.")
    return int(written) if written.isascii() and written.isdigit() else value + 0.0


class Reader:
    """A cursor over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0

    @property
    def next(self) -> Token:
        """The next token to consume."""
        return self.tokens[self.at]

    @property
    def after(self) -> Token:
        """The token that follows the next one."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Consume the next token and return it; the end is never consumed."""
        taken = self.next
        if taken.kind != "end":
            self.at += 1
        return taken

    def takes(self, sign: str) -> bool:
        """Consume the next token if it is this sign; return whether it was."""
        if self.next.kind == "sign" and self.next.text == sign:
            self.at += 1
            return True
        return False

    def takes_word(self, word: str) -> bool:
        """Consume the next token if it is this keyword; return whether it was."""
        if self.next.word == word:
            self.at += 1
            return True
        return False

    def close(self, opening: Token) -> None:
        """Consume the ``)`` that matches an opening bracket."""
        if self.takes(")"):
            return
        if self.next.kind == "end":
            raise self.error("This ( is never closed; add a ).", opening)
        raise self.error(f"Expected , or ) but found {self.next.named()}.", self.next)

    def open(self, what: str) -> Token:
        """Consume the required ``(`` and return it."""
        opening = self.next
        if not self.takes("("):
            raise self.error(f"Expected ( after {what} but found {opening.named()}.", opening)
        return opening

    def expect(self, kind: str, example: str) -> Token:
        """Consume a token of this kind and return it; raise LanguageError on another."""
        if self.next.kind != kind:
            raise self.error(
                f"Expected {NAMES[kind]}, such as {example}, but found {self.next.named()}.",
                self.next,
            )
        return self.take()

    def signed_number(self, example: str) -> float:
        """Consume a number with or without a sign and return it."""
        negative = self.takes("-")
        if not negative:
            self.takes("+")
        written = self.expect("number", example)
        value = float(self.number_of(written))
        return -value + 0.0 if negative else value

    def number_of(self, written: Token) -> int | float:
        """Return a number token's value."""
        try:
            return number(written.text)
        except ValueError as problem:
            raise self.error(str(problem), written) from None

    def error(self, message: str, where: Token | int) -> LanguageError:
        """Return an error that points at a token or a position."""
        place = where if isinstance(where, int) else where.start
        return LanguageError(message, self.text, place)


def did_you_mean(name: str, known: tuple[str, ...]) -> str:
    """Return a sentence that proposes the nearest known name, or an empty string."""
    close = difflib.get_close_matches(name[:64].lower(), [k.lower() for k in known], n=1)
    spelled = next((k for k in known if close and k.lower() == close[0]), None)
    return f" Did you mean {spelled}?" if spelled else ""
