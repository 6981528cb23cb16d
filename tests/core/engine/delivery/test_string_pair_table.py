"""Pairs of words by number are what was put last, however many there were before."""

import random
from itertools import pairwise

import numpy as np

from nearcast.core.engine.delivery.string_pair_table import StringPairTable, Texts


def texts(found: Texts) -> list[str]:
    ends = found.ends.tolist()
    data = bytes(found.data)
    assert ends[-1] == len(data)
    return [data[start:end].decode() for start, end in pairwise(ends)]


def check(words: StringPairTable, known: dict[int, tuple[str, str]], draw: random.Random) -> None:
    """Take many at once: all second words, and the first words of some."""
    numbers = [draw.choice(list(known)) for _ in range(100)]
    firsts = sorted(draw.sample(range(100), draw.randrange(101)))
    first, second = words.taken(np.array(numbers, np.int32), np.array(firsts, np.int32))
    assert texts(first) == [known[numbers[place]][0] for place in firsts]
    assert texts(second) == [known[number][1] for number in numbers]


def test_the_last_pair_counts() -> None:
    draw = random.Random(1)

    def word(what: object) -> str:
        return draw.choice(("", "é", "x" * draw.randrange(50))) + str(what)

    known = {number: (word(number), word("id")) for number in range(5)}
    words = StringPairTable(list(known.values()))
    most = 0
    for step in range(3_000):
        number = draw.randrange(40)
        known[number] = (word(step), word("")) if step % 7 else ("", "")
        words.put(number, known[number])
        if step % 50 == 0:
            check(words, known, draw)
        most = max(most, words.length)
    check(words, known, draw)
    assert most < 20_000, "old words are left out"


def test_no_words_are_words_too() -> None:
    words = StringPairTable([])
    words.put(3, ("three", "3"))
    check(words, {3: ("three", "3"), 1: ("", "")}, random.Random(1))
    none = np.zeros(0, np.int32)
    assert [texts(each) for each in words.taken(none, none)] == [[], []]
