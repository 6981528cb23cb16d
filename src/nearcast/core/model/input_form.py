"""Forms of inputs: the declaration from which recording, recovery and erasure follow.

`@InputForm(…)` beside the fields of an input is enough for it to be written as a row of the log and
read back, to be kept and recovered if it is a standing input, and to be erased with the person it
concerns. The fields named there are columns of the row; all others are JSON in `data` under their
names, those with a default only if they differ from it.
"""

from collections.abc import Iterator
from operator import attrgetter
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T", bound=type[Struct])
_FORMS: "dict[str, InputForm]" = {}


class InputForm(Struct, frozen=True, kw_only=True, eq=False):
    """How an input is recorded; `a.b` names a field of a field. Used as a decorator."""

    declared: type[Struct] = Struct
    """The decorated class; its tag is the kind of its rows."""
    node: str | None = None
    """The field with the owner: the row is erased with that person."""
    subject: str | None = None
    position: str | None = None
    part: str | None = None
    """A struct field whose fields are written in its place."""
    names: dict[str, str] = {}
    """Fields with a different name in `data`."""
    data: tuple[str, ...] = ()
    """Fields with a default that are in `data` itself; others with one are in its `input`."""
    complete: bool = False
    """True if all fields are in `data` itself, also those equal to their defaults."""
    also: dict[str, str] = {}
    """Constant members of `data`, without information."""

    space: str | None = None
    """For a standing input: the space in which it is kept under its key, or which it `ends`."""
    key: tuple[str, ...] = ()
    ends: bool = False
    ends_without: str | None = None
    """It ends the kept input if this field is None."""
    ends_unless: str | None = None
    """It ends the kept input if this field is false."""

    renamed: tuple[str, ...] | None = None
    """If another person's row names an erased person, it is kept with the name replaced, unless the
    name is in one of these members of `data`. None: the row is erased.
    """
    member_names: bool = False
    """True if member names of objects in `data` may equal node names."""
    own_subject: bool = False
    """True if the subject was chosen by the owner, whatever node it names."""
    sessions: str | None = None
    """The field with a list of sessions, from which those of an erased person are removed."""

    def __call__(self, declared: T) -> T:
        """Register this form for a class of inputs."""
        form = replace(self, declared=declared)
        assert form.kind not in _FORMS, f"two inputs are of kind {form.kind!r}"
        _FORMS[form.kind] = form
        return declared

    @property
    def kind(self) -> str:
        """The kind of its rows."""
        return str(self.declared.__struct_config__.tag)

    def key_of(self, value: Struct) -> str:
        """Return the key of a standing input; the kind if there can be only one."""
        return "\0".join(attrgetter(name)(value) for name in self.key) or self.kind

    def is_end(self, value: Struct) -> bool:
        """Return whether an input ends the one kept under its key."""
        return (
            self.ends
            or (self.ends_without is not None and getattr(value, self.ends_without) is None)
            or (self.ends_unless is not None and not getattr(value, self.ends_unless))
        )


def form_of(kind: str) -> InputForm | None:
    """Return the form of the inputs of a kind, None if there is none."""
    return _FORMS.get(kind)


def form_of_input(value: Struct) -> InputForm:
    """Return the form of an input."""
    return _FORMS[str(type(value).__struct_config__.tag)]


def input_forms() -> Iterator[InputForm]:
    """Yield all forms, in the order of their declaration."""
    yield from _FORMS.values()
