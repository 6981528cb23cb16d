from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.matching.index.patterns import Patterns
from nearcast.core.model import subject_matches

levels = st.sampled_from(("a", "b", "", "$x"))
subjects = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
patterns = st.builds(
    lambda parts, rest: "/".join([*parts, *rest]) or "#",
    st.lists(levels | st.just("+"), max_size=4),
    st.just([]) | st.just(["#"]),
)


@given(st.lists(patterns, max_size=12), st.lists(subjects, max_size=6), st.data())
def test_a_subject_fits_exactly_the_patterns_it_fits_one_by_one(
    wanted: list[str], asked: list[str], data: st.DataObject
) -> None:
    tree = Patterns()
    numbers = [(tree.acquire(pattern), pattern) for pattern in wanted]
    for index in data.draw(st.lists(st.integers(0, 11), max_size=6)):
        if numbers:
            number, _ = numbers.pop(index % len(numbers))
            tree.release(number)
        for subject in asked:
            expected = {n for n, pattern in numbers if subject_matches(pattern, subject)}
            assert set(tree.matching(subject)) == expected
    for number, _ in numbers:
        tree.release(number)
    assert len(tree) == 0
    assert not tree._root.below
