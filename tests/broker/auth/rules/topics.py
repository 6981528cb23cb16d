"""All topics of a small world, and random patterns."""

from itertools import product

from hypothesis import strategies as st

from nearcast.core.model.subject import subject_matches

# One level more than patterns have, and one letter that no pattern has, stand for all topics.
TOPICS = tuple(
    "/".join(levels)
    for depth in (1, 2, 3, 4)
    for levels in product(("a", "b", "z", "$s"), repeat=depth)
)

LEVEL = st.sampled_from(("a", "b", "$s", "+"))


@st.composite
def patterns(draw: st.DrawFn) -> str:
    levels = draw(st.lists(LEVEL, max_size=3))
    if not levels or (len(levels) < 3 and draw(st.booleans())):
        levels.append("#")
    return "/".join(levels)


def selected(pattern: str) -> set[str]:
    return {topic for topic in TOPICS if subject_matches(pattern, topic)}
