"""The tree of subjects finds what testing each of them finds."""

from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.matching.live.subject_tree import RowsBySubject
from nearcast.core.model.subject import subject_matches

names = st.sampled_from(["", "a", "b", "$x", "c"])
subjects = st.lists(names, min_size=1, max_size=4).map("/".join).filter(bool)
patterns = st.tuples(
    st.lists(names | st.just("+"), max_size=4), st.sampled_from([[], ["#"], ["+"]])
).map(lambda parts: "/".join([*parts[0], *parts[1]])).filter(bool)  # fmt: skip


@given(
    st.lists(st.tuples(subjects, st.integers(0, 5), st.booleans())),
    st.lists(patterns, min_size=1),
)
def test_rows_are_found_by_pattern_as_one_by_one(
    changes: list[tuple[str, int, bool]], wanted: list[str]
) -> None:
    rows, plain = RowsBySubject(), set[tuple[str, int]]()
    for subject, row, stays in changes:
        if stays:
            rows.add(subject, row)
            plain.add((subject, row))
        elif (subject, row) in plain:
            rows.remove(subject, row)
            plain.discard((subject, row))
    for pattern in wanted:
        expected = [row for subject, row in plain if subject_matches(pattern, subject)]
        assert sorted(rows.matching(pattern)) == sorted(expected)


def test_nothing_is_left_of_subjects_that_are_gone() -> None:
    rows = RowsBySubject()
    for subject in ("a", "a/b", "a/b/c"):
        rows.add(subject, 1)
    for subject in ("a/b", "a/b/c", "a"):
        rows.remove(subject, 1)
    assert vars(rows._tree) == {"_root": {}}
