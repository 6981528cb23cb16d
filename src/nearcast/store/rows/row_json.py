"""The JSON inside a row: filters, plain values, and their text.

A filter is its CQL2 JSON and, if it came from seed C's XML, a flag that unknown counts as false. It
is read back node for node: nesting is kept.
"""

from collections.abc import Mapping

import msgspec

from nearcast.core.language import Filter, Node, Operation
from nearcast.core.language.forms.json_form import JsonParser
from nearcast.store.errors import StoreError

Json = dict[str, object]
_LOGICAL = ("and", "or", "not")
_OF_XML = ("node", "earlier")


def filter_json(found: Filter) -> Json:
    """Return a filter as JSON."""
    written: Json = {"cql2": found.to_json()}
    return written | {"two_valued": True} if found.two_valued else written


def filter_from_json(value: object) -> Filter:
    """Return the filter that `filter_json` wrote."""
    if not isinstance(value, Mapping):
        raise TypeError(f"a filter is an object, not {value!r}")
    return Filter(_node(value["cql2"]), bool(value.get("two_valued", False)))


def _node(value: object) -> Node:
    # The parser of users' JSON merges nested ANDs and ORs; the log keeps them as they were.
    if isinstance(value, Mapping) and (value.get("op") in _LOGICAL or _is_of_xml(value)):
        return Operation(value["op"], tuple(_node(arg) for arg in value["args"]))
    return JsonParser().node(value, "$", 1)


def _is_of_xml(value: object) -> bool:
    """Whether a part names another user or earlier events, for which users' JSON has no form."""
    if not isinstance(value, Mapping):
        return False
    args = value.get("args")
    return value.get("op") in _OF_XML or (isinstance(args, list) and any(map(_is_of_xml, args)))


def plain(value: object, name: str) -> object:
    """Return a value that JSON can represent; raises `StoreError` for others."""
    try:
        same = msgspec.json.decode(msgspec.json.encode(value)) == value
    except (TypeError, ValueError):
        same = False
    if not same:
        raise StoreError(f"the log cannot write {name}: {value!r} is not a JSON value")
    return value


def text(data: Json) -> str:
    """Return the JSON text of an object."""
    return msgspec.json.encode(data).decode() if data else "{}"
