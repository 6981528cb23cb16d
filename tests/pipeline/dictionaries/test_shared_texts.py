"""What fewer than k publishers have sent is not in what a dictionary is trained from."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from nearcast.pipeline.dictionaries.shared_texts import SharedTexts, publishers_of

WORDS = st.lists(st.sampled_from(["ice", "jam", "7", "19", '":"', ",", " "]), max_size=8)
SAMPLES = st.lists(st.tuples(st.sampled_from("abcd"), WORDS.map("".join)), min_size=1, max_size=12)


def publishers_with(samples: list[tuple[str, str]], run: str) -> int:
    return len({publisher for publisher, payload in samples if run in payload})


@given(SAMPLES, st.integers(2, 4))
def test_a_run_is_shared_only_if_so_many_have_sent_it(
    samples: list[tuple[str, str]], least: int
) -> None:
    texts = SharedTexts(samples, least)
    for _, payload in samples:
        for start in range(len(payload)):
            for end in range(start + 1, len(payload) + 1):
                run = payload[start:end]
                if texts.is_shared(run):
                    assert publishers_with(samples, run) >= least


def test_common_words_stay_and_rare_ones_become_random() -> None:
    samples = [
        (f"car-{each}", f'{{"kind":"ice","plate":"XY{each}4711Q","grip":{each % 3}}}')
        for each in range(30)
    ]
    texts, chance = SharedTexts(samples, 10), Random(1)
    for _, payload in samples:
        found = texts.anonymous(payload, chance)
        assert len(found) == len(payload)
        assert found.startswith('{"kind":"ice","plate":"')
        assert payload.split('"')[7] not in found
    assert publishers_of(samples) == 30


@given(SAMPLES)
def test_with_one_publisher_nothing_stays_but_punctuation(samples: list[tuple[str, str]]) -> None:
    alone = [("a", payload) for _, payload in samples]
    texts = SharedTexts(alone, 2)
    assert not any(texts.is_shared(word) for _, payload in alone for word in (payload, "ice"))
