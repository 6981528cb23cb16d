"""Words by number are what was put last, however many there were before."""

import random

import numpy as np

from nearcast.core.words import Words


def read(words: Words, number: int) -> str:
    (k,) = words.where(np.array([number], np.int32)).tolist()
    return bytes(words.data[words.offsets[k] : words.offsets[k + 1]]).decode()


def test_the_last_word_counts() -> None:
    draw = random.Random(1)
    known = {number: f"word {number}" for number in range(5)}
    words = Words(list(known.values()))
    most = 0
    for step in range(3_000):
        number = draw.randrange(40)
        known[number] = draw.choice(("", "é", "x" * draw.randrange(50))) + str(step)
        words.put(number, known[number])
        if step % 50 == 0:
            assert {number: read(words, number) for number in known} == known
        most = max(most, words.count)
    assert most < 1_000, "old words are left out"
    assert words.offsets[words.count] <= len(words.data)


def test_no_words_are_words_too() -> None:
    words = Words([])
    words.put(3, "three")
    assert read(words, 3) == "three"
