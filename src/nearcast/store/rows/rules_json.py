"""Sight rules as the JSON inside a row, and back without loss."""

import msgspec
from msgspec import Struct

from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.store.rows.area_form import area_from_store, stored_area
from nearcast.store.rows.row_json import Json, filter_from_json, filter_json


class _WhoForm(Struct):
    nodes: tuple[str, ...]
    where: object
    inside: object


class _RuleForm(Struct):
    viewer: _WhoForm
    other: _WhoForm
    see: int
    friend: bool
    same: str | None


def rule_json(rule: SightRule) -> Json:
    """Return a rule as JSON."""
    return {
        "viewer": _who_json(rule.viewer),
        "other": _who_json(rule.other),
        "see": rule.see,
        "friend": rule.friend,
        "same": rule.same,
    }


def rule_from_json(value: object) -> SightRule:
    """Return the rule that `rule_json` wrote."""
    form = msgspec.convert(value, _RuleForm)
    return SightRule(_who(form.viewer), _who(form.other), form.see, form.friend, form.same)


def _who_json(who: NodeCondition) -> Json:
    return {
        "nodes": who.nodes,
        "where": None if who.where is None else filter_json(who.where),
        "inside": None if who.inside is None else stored_area(who.inside),
    }


def _who(form: _WhoForm) -> NodeCondition:
    where = None if form.where is None else filter_from_json(form.where)
    return NodeCondition(
        form.nodes, where, None if form.inside is None else area_from_store(form.inside)
    )
