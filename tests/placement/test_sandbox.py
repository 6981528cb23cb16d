"""What a script must define: functions of an event, or arguments, and the state."""

import pytest

from nearcast.placement.errors import ScriptError
from nearcast.placement.sandbox import Sandbox


def sandbox() -> Sandbox:
    return Sandbox(lambda node: b"")


@pytest.mark.parametrize("name", ["on_event", "run"])
@pytest.mark.parametrize(
    "parameters", ["first", "first, state, more", "", "*all", "first, *, state"]
)
def test_a_function_that_does_not_take_two_arguments_is_refused(name: str, parameters: str) -> None:
    with pytest.raises(ScriptError, match=rf"{name} is a function of two arguments: define {name}"):
        sandbox().load(f"def {name}({parameters}): pass")


@pytest.mark.parametrize("parameters", ["e, s", "e, s, more=1", "e, s, **others", "e, *others"])
def test_others_are_taken_and_not_run_by_that(parameters: str) -> None:
    found = sandbox().load(f"def on_event({parameters}): publish('ran')")
    assert found.functions == ("on_event",)


def test_both_may_be_there() -> None:
    found = sandbox().load("def on_event(e, s): pass\nrun = lambda args, state: None")
    assert found.functions == ("on_event", "run")
