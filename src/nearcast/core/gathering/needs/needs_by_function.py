"""Needs that code decides: `{"function": SOURCE, "else": need}` (seed E's function G, written out).

The source is Starlark and defines `aggregability(me, other)`. It is not run here: the host asks for
the need of an event, and what the function says is an input. So a log tells all that it said, and
whoever plays the log needs no interpreter.
"""

from collections.abc import Mapping

from msgspec import Struct

from nearcast.core.gathering.needs.needs import ALONE, Needs, needs_of_text
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import shown

FUNCTION = "aggregability"
NOT_TOLD = Needs(())
"""Until the function has said what an event needs: nothing meets it."""
_FORM = '{"function": "def aggregability(me, other): return \'volume 5\'", "else": "volume 1"}'


class NeedsByFunction(Struct, frozen=True):
    """A function says what each event needs."""

    source: str
    otherwise: Needs = ALONE
    """What an event needs for which the function fails."""

    def needs(self, told: str) -> Needs:
        """The needs of what the function said; empty: it failed."""
        return needs_of_text(told) if told else self.otherwise


def needs_by_function(members: Mapping[str, object]) -> NeedsByFunction:
    """Return the needs of a JSON object without its clauses, or raise `ModelError`."""
    unknown = members.keys() - {"function", "else"}
    if unknown:
        raise ModelError(f"unknown {shown(min(unknown))} beside function; such as {_FORM}")
    source = members["function"]
    if not isinstance(source, str) or f"def {FUNCTION}" not in source:
        raise ModelError(f'"function" is Starlark that defines {FUNCTION}(me, other); {_FORM}')
    otherwise = members.get("else")
    if otherwise is None:
        return NeedsByFunction(source)
    if not isinstance(otherwise, str):
        raise ModelError(f"\"else\" is a need such as 'volume 1', not {shown(otherwise)}")
    return NeedsByFunction(source, needs_of_text(otherwise))
