"""Which texts of payloads may be in a dictionary: those that enough publishers have sent.

A dictionary holds pieces of payloads, and all readers of a subject get it. So a payload is cut into
words, and every run of words that fewer than k publishers have sent is replaced by random ones of
the same shape: what remains tells of nobody, and is as long and as varied as before.
"""

import re
from collections.abc import Iterable, Sequence, Set
from random import Random

_WORDS = re.compile(r"[A-Za-z]+|[0-9]+|[^A-Za-z0-9]+")
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_LONGEST_RUN = 40


class SharedTexts:
    """The runs of words that enough publishers have sent."""

    def __init__(self, samples: Sequence[tuple[str, str]], least_publishers: int) -> None:
        """`samples` are publishers and payloads."""
        self._shared: set[str] = set()
        cut = [(publisher, _words(payload)) for publisher, payload in samples]
        starts: list[Sequence[int]] = [range(len(words)) for _, words in cut]
        for length in range(1, _LONGEST_RUN + 1):
            publishers: dict[str, set[str]] = {}
            for (publisher, words), places in zip(cut, starts, strict=True):
                for place in places:
                    run = "".join(words[place : place + length])
                    publishers.setdefault(run, set()).add(publisher)
            found = {run for run, names in publishers.items() if len(names) >= least_publishers}
            if not found:
                break
            self._shared |= found
            # A longer run can be shared only if both runs that it is made of are.
            starts = [
                _longer(words, places, length, found)
                for (_, words), places in zip(cut, starts, strict=True)
            ]

    def anonymous(self, payload: str, chance: Random) -> str:
        """Return a payload in which nothing is of too few publishers."""
        words, found, at = _words(payload), list[str](), 0
        while at < len(words):
            length = self._shared_length(words, at)
            if length:
                found.append("".join(words[at : at + length]))
            else:
                found.append(_like(words[at], chance))
            # What follows a shared run might make it tell more: something random stands between.
            at += max(length, 1)
            if length and at < len(words):
                found.append(_like(words[at], chance))
                at += 1
        return "".join(found)

    def is_shared(self, text: str) -> bool:
        """Whether enough publishers have sent a run of words."""
        return text in self._shared

    def _shared_length(self, words: Sequence[str], at: int) -> int:
        length = 0
        for end in range(at + 1, min(at + _LONGEST_RUN, len(words)) + 1):
            if not self.is_shared("".join(words[at:end])):
                break
            length = end - at
        return length


def _words(payload: str) -> list[str]:
    return _WORDS.findall(payload)


def _longer(
    words: Sequence[str], places: Sequence[int], length: int, shared: Set[str]
) -> Sequence[int]:
    """Return where a run of one word more may be shared."""
    good = {place for place in places if "".join(words[place : place + length]) in shared}
    return [place for place in sorted(good) if place + 1 in good]


def _like(word: str, chance: Random) -> str:
    """Return a random word of the same shape; what is neither letter nor digit stays."""
    found = []
    for letter in word:
        if letter.isascii() and letter.isalpha():
            other = chance.choice(_LETTERS)
            found.append(other.upper() if letter.isupper() else other)
        elif letter.isascii() and letter.isdigit():
            found.append(chance.choice(_DIGITS))
        else:
            found.append(letter if letter.isascii() else "?")
    return "".join(found)


def publishers_of(samples: Iterable[tuple[str, str]]) -> int:
    """Return the number of publishers."""
    return len({publisher for publisher, _ in samples})
