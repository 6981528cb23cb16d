"""Definitions of relationships as JSON, as clients send them to `$relate/NAME`."""

from collections.abc import Mapping
from math import isfinite

from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.situation.nc_properties import BAD, filter_of
from nearcast.core.language import Filter
from nearcast.core.matching.reference import asks_only_the_event
from nearcast.core.model.geometry.area import ME
from nearcast.core.model.geometry.position import shown
from nearcast.core.model.inputs import RelationshipDefined
from nearcast.core.relationships.relationship import check_relationship

WORDS = ("members", "within", "beyond", "need", "of", "where")
_EXAMPLE = '{"members": ["truck-1", "truck-2"], "within": 100}'


def relationship_of(name: str, node: str, members: Mapping[str, object]) -> RelationshipDefined:
    """Return the relationship that a node defines; raises `RefusedError` or `ModelError`."""
    for word in members:
        if word not in WORDS:
            raise RefusedError(BAD, f"unknown {shown(word)}; there are {', '.join(WORDS)}")
    nodes, metres = _members(members.get("members"), node)
    within, beyond = (_size(members.get(word), f'"{word}"') for word in ("within", "beyond"))
    given = [word for word in ("within", "beyond") if members.get(word) is not None]
    if metres and given:
        raise RefusedError(
            BAD, f'members with metres of their own take no "{given[0]}": {{"a": 100, "b": 500}}'
        )
    if not metres and len(given) != 1:
        raise RefusedError(
            BAD, f'a relationship needs either "within" or "beyond", such as {_EXAMPLE}'
        )
    need = _need(members.get("need"), len(nodes))
    of, where = _quantity(members.get("of")), _where(members.get("where"))
    value = RelationshipDefined(name, node, nodes, need, within, beyond, metres, of, where)
    check_relationship(value)
    return value


def _members(value: object, node: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The nodes that are meant, and the metres of each if they are given."""
    if isinstance(value, Mapping):
        sizes = (_size(each, f'"members": {shown(name)}') for name, each in value.items())
        metres = tuple(each for each in sizes if each is not None)
        if len(metres) < len(value):
            raise RefusedError(BAD, '"members": each node has a number of metres, not null')
        return tuple(node if name == ME else name for name in value), metres
    if not isinstance(value, list):
        raise RefusedError(BAD, f'a relationship needs "members", such as {_EXAMPLE}')
    names = []
    for name in value:
        if not isinstance(name, str):
            raise RefusedError(BAD, f'"members" are names of nodes, not {shown(name)}')
        names.append(node if name == ME else name)
    return tuple(names), ()


def _size(value: object, what: str) -> float | None:
    if value is None:
        return None
    # In Python True is a number.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RefusedError(BAD, f"{what} is a number such as 100, not {shown(value)}")
    if not abs(value) < 1e15 or not isfinite(value) or value < 0:
        raise RefusedError(BAD, f"{what} is a number from 0, not {shown(value)}")
    return float(value)


def _need(value: object, count: int) -> int:
    if value is None or value == "all":
        return count
    if value == "any":
        return 2
    # 2.0 equals 2 in JSON.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise RefusedError(BAD, f'"need" is "all", "any" or a whole number, not {shown(value)}')
    if not 2 <= value <= count:
        raise RefusedError(BAD, f'"need" is 2 to {count} of {count} members, not {shown(value)}')
    return int(value)


def _quantity(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not all(value.split(".")):
        what = '"of" is the name of a number in contexts, such as "tank.temperature"'
        raise RefusedError(BAD, f"{what}, not {shown(value)}")
    return value


def _where(value: object) -> Filter | None:
    if value is None:
        return None
    where = filter_of(value, '"where"')
    if not asks_only_the_event(where.root):
        raise RefusedError(
            BAD,
            '"where" is about the attributes of a member alone, by their bare names, such as '
            "role = 'driver'",
        )
    return where
