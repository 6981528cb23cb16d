"""What is checked of a source before it is parsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.placement.errors import ScriptError
from nearcast.placement.source import check_source


@pytest.mark.parametrize(
    "source",
    [
        "(" * 200 + ")" * 200,
        "()" * 1_000,
        "x = '" + "(" * 300 + "'",
        'x = """' + "[" * 300 + '"""',
        "# " + "{" * 300,
        "x = '\\'" + "(" * 300 + "'",
        "x = 1 # '\n" + "()" * 300,
    ],
)
def test_brackets_in_texts_and_comments_do_not_count(source: str) -> None:
    check_source(source)


@pytest.mark.parametrize(
    "source",
    [
        "(" * 201,
        "x\n" + "([{" * 67,
        "x = 'a' + " + "(" * 201,
        "'' ''" + "[" * 201,
        "x = 'open\n" + "[" * 201,
        '# """\n' + "{" * 201,
    ],
)
def test_more_than_two_hundred_nested_brackets_are_refused(source: str) -> None:
    with pytest.raises(ScriptError, match="200 brackets"):
        check_source(source)


@given(st.text("()[]{}ab \n", max_size=500))
def test_depth_is_counted_as_a_plain_loop_does(source: str) -> None:
    depth = deepest = 0
    for each in source * 3:
        depth += (each in "([{") - (each in ")]}")
        deepest = max(deepest, depth)
    too_deep = deepest > 200
    try:
        check_source(source * 3 + "x")
    except ScriptError:
        assert too_deep
    else:
        assert not too_deep
