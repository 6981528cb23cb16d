"""Any input except an event as columns and the JSON in `data`, as its `InputForm` declares.

The encoding of a field follows from its type: areas, filters, rights and rules have forms of their
own, all else is plain JSON. In `data`, fields with a form of their own come before those that are
written only if they differ from their defaults; such fields of the input itself are in the member
`input`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from nearcast.core.language import Filter
from nearcast.core.model.event import Relevance
from nearcast.core.model.geometry.area import Area, FixedArea
from nearcast.core.model.geometry.forms.area_json import geometry_from_json
from nearcast.core.model.geometry.place_loading import LARGEST_RECORDED_PLACE
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.input_form import InputForm
from nearcast.core.model.inputs import Input
from nearcast.core.model.sight_rule import SightRule
from nearcast.core.model.subject_permissions import SubjectPermissions
from nearcast.store.rows.area_form import area_from_store, stored_area
from nearcast.store.rows.row_json import Json, filter_from_json, filter_json, plain
from nearcast.store.rows.rules_json import rule_from_json, rule_json

T = TypeVar("T")
INPUT = "input"
"""The member of `data` for fields of the input itself that differ from their defaults."""


class InputColumns(Struct, frozen=True, gc=False):
    """The columns of an input."""

    node: str | None
    subject: str | None
    position: Position | None
    data: Json


def write_input(value: Input, form: InputForm) -> InputColumns:
    """Return an input as columns."""
    layout = _layout(form)
    part = value if form.part is None else getattr(value, form.part)
    data: Json = form.also | _written(layout.members, part)
    if own := _written(layout.own, value):
        data[INPUT] = own
    return InputColumns(
        None if form.node is None else attrgetter(form.node)(value),
        None if form.subject is None else attrgetter(form.subject)(value),
        None if form.position is None else attrgetter(form.position)(value),
        data,
    )


def _written(fields: "Sequence[_Field]", of: Struct) -> Json:
    data: Json = {}
    for field in fields:
        found = getattr(of, field.name)
        if not field.is_optional or found != field.default:
            data[field.written] = None if found is None else field.codec.write(found)
    return data


def read_input(columns: InputColumns, form: InputForm) -> Input:
    """Return the input that `write_input` encoded.

    Damaged data raises `TypeError`, `KeyError`, `ValueError` or an error of msgspec, of the model
    or of the language.
    """
    layout, data = _layout(form), columns.data
    members = _read(layout.members, data, form)
    for name, column in ((form.node, columns.node), (form.subject, columns.subject)):
        if name is not None:
            members[name.rpartition(".")[2]] = needed(column)
    if form.position is not None:
        members[form.position] = columns.position
    own = _read(layout.own, cast(Json, data.get(INPUT, {})), form)
    if form.part is not None:
        members = {form.part: layout.part(**members)}
    return cast(Input, form.declared(**members, **own))


def _read(fields: "Sequence[_Field]", data: Json, form: InputForm) -> Json:
    found: Json = {}
    for field in fields:
        # Earlier releases lacked some fields of forms that are complete now.
        if field.written in data or not (field.is_optional or form.complete):
            told = data[field.written]
            if told is None and not field.may_be_null:
                raise TypeError(f"{field.written} is null")
            found[field.name] = None if told is None else field.codec.read(told)
    return found


def needed(value: T | None) -> T:
    """Return the value of a required column; raises `TypeError` if it is None."""
    if value is None:
        raise TypeError("a column that this kind needs is empty")
    return value


class _Codec(NamedTuple):
    """The JSON encoder and decoder of a type."""

    write: Callable[[Any], object]
    read: Callable[[Any], object]
    is_plain: bool = False


class _Field(NamedTuple):
    """The encoding of one field."""

    name: str
    written: str
    codec: _Codec
    default: object
    is_optional: bool
    """True if it is written only when it differs from its default."""
    may_be_null: bool


class _Layout(NamedTuple):
    """The fields of an input by their location."""

    part: type[Struct]
    """The struct that has `members`: the input, or the part of it that is written."""
    members: tuple[_Field, ...]
    own: tuple[_Field, ...]


@lru_cache(None)
def _layout(form: InputForm) -> _Layout:
    part, own = form.declared, []
    if form.part is not None:
        part = _hints(form.declared)[form.part]
        own = [field for field in _fields(form.declared, form) if field.name != form.part]
    columns = {name.rpartition(".")[2] for name in (form.node, form.subject, form.position) if name}
    members, plain_members = [], []
    for field in _fields(part, form):
        if field.name in columns:
            continue
        if not field.is_optional or not field.codec.is_plain:
            members.append(field)
        elif form.part is not None or field.name in form.data:
            plain_members.append(field)
        else:
            own.append(field)
    return _Layout(part, (*members, *plain_members), tuple(own))


def _fields(of: type[Struct], form: InputForm) -> Iterator[_Field]:
    hints = _hints(of)
    names, defaults = of.__struct_fields__, of.__struct_defaults__
    required = len(names) - len(defaults)
    for at, name in enumerate(names):
        default: Any = None if at < required else defaults[at - required]
        if hasattr(default, "factory"):
            default = default.factory()
        is_optional = at >= required and not form.complete
        hint = hints[name]
        may_be_null = type(None) in get_args(hint)
        codec, written = _codec(hint, name), form.names.get(name, name)
        yield _Field(name, written, codec, default, is_optional, may_be_null)


def _hints(of: type[Struct]) -> dict[str, Any]:
    # In `core` filters are imported for type checkers only; values of attributes are JSON.
    return get_type_hints(of, localns={"Filter": Filter, "Value": object})


def _codec(hint: object, name: str) -> _Codec:
    """Return the codec of a field by its type."""
    parts = frozenset(get_args(hint)) - {type(None)}
    if parts == frozenset(get_args(Area)):
        return _Codec(stored_area, area_from_store)
    if parts == frozenset(get_args(FixedArea)):
        return _Codec(stored_area, _fixed_area)
    if Filter in (hint, *parts):
        if get_origin(hint) is tuple:
            return _several(_Codec(filter_json, filter_from_json))
        return _Codec(filter_json, filter_from_json)
    if SightRule in parts:
        return _several(_Codec(rule_json, rule_from_json))
    for plain_struct in (SubjectPermissions, Relevance):
        if plain_struct in parts:
            return _Codec(msgspec.to_builtins, partial(msgspec.convert, type=plain_struct))
    if object in parts:
        return _Codec(lambda value: plain(value, name), _as_it_is, is_plain=True)
    return _Codec(_as_it_is, lambda told: msgspec.convert(told, hint), is_plain=True)


def _several(codec: _Codec) -> _Codec:
    return _Codec(
        lambda values: [codec.write(value) for value in values],
        lambda told: tuple(codec.read(value) for value in told),
    )


def _as_it_is(value: object) -> object:
    return value


def _fixed_area(told: object) -> Area:
    # A place may have more points than an area drawn by a client.
    if isinstance(told, dict) and "type" in told:
        return geometry_from_json(told, LARGEST_RECORDED_PLACE)
    return area_from_store(told)
