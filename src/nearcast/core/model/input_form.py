"""What an input says of itself, once, so that the rest follows.

`@InputForm(…)` beside the fields of an input is enough for it to be written as a row of the log
and read back, to be kept and recovered if it stands, and to be erased with the person it concerns.
The fields named there are in columns of the row; all others are JSON in `data` under their names,
those with a default only if they differ from it.
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
    """The class that is decorated; its tag is the kind of its rows."""
    node: str | None = None
    """The field that says whose it is: when that person is erased, so is the row."""
    subject: str | None = None
    position: str | None = None
    part: str | None = None
    """A field that is a struct, whose fields are written in place of it."""
    names: dict[str, str] = {}
    """Fields that have another name in `data`."""
    data: tuple[str, ...] = ()
    """Fields with a default that are in `data` itself; others of them are in its `input`."""
    complete: bool = False
    """All fields are in `data` itself, also those that are as their defaults."""
    also: dict[str, str] = {}
    """What is in `data` beside them, and tells nothing."""

    space: str | None = None
    """It stands: it is kept in this space under its key, or `ends` what is kept there."""
    key: tuple[str, ...] = ()
    ends: bool = False
    ends_without: str | None = None
    """It ends what is kept if this field is None."""

    renamed: tuple[str, ...] | None = None
    """If others named an erased person in it, it stays with another name in place of theirs,
    unless they are named in one of these members of `data`. None: it is erased."""
    member_names: bool = False
    """Members of the objects in `data` may be called as nodes are."""
    own_subject: bool = False
    """The subject is the words of who said it, whomever it names."""
    sessions: str | None = None
    """The field that lists sessions; of an erased person's it is left without them."""

    def __call__(self, declared: T) -> T:
        """Declare that inputs of a class have this form."""
        form = replace(self, declared=declared)
        assert form.kind not in _FORMS, f"two inputs are of kind {form.kind!r}"
        _FORMS[form.kind] = form
        return declared

    @property
    def kind(self) -> str:
        """The kind of its rows."""
        return str(self.declared.__struct_config__.tag)

    def key_of(self, value: Struct) -> str:
        """Return under what an input that stands is kept; the kind if there can be only one."""
        return "\0".join(attrgetter(name)(value) for name in self.key) or self.kind

    def is_end(self, value: Struct) -> bool:
        """Whether an input ends what is kept under its key."""
        return self.ends or (
            self.ends_without is not None and getattr(value, self.ends_without) is None
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
