"""Relevance of a subscription: `nc-relevance` and `template:NAME` against the policies in force.

A template is copied: what is stored is its filter and the vector, so later changes of the template
do not touch the subscription. A vector that follows roles keeps the name of its template.
"""

import msgspec
from msgspec.structs import replace

from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.situation.nc_properties import BAD, SubscriptionOptions
from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.form_function import MOST_ATOMS, FormFunction
from nearcast.core.adaptation.relevance import (
    ByRole,
    Learned,
    atoms_against_nesting,
    checked_vector,
    parse_relevance,
)
from nearcast.core.engine.engine import Engine
from nearcast.core.language import Filter
from nearcast.core.model.event import Relevance
from nearcast.store.rows.row_json import filter_json


def resolved_options(
    options: SubscriptionOptions, engine: Engine, node: str, what: str
) -> tuple[SubscriptionOptions, list[str]]:
    """Return options with the filter of their template and their relevance, and warnings.

    `what` is the name of the option in messages.
    """
    if not options.template and options.relevance_given is None:
        return options, []
    try:
        return _resolved(options, engine, node)
    except AdaptationError as error:
        raise RefusedError(BAD, f"{what}: {error}") from None


def _resolved(
    options: SubscriptionOptions, engine: Engine, node: str
) -> tuple[SubscriptionOptions, list[str]]:
    where, template = options.where, options.template
    if template:
        where = engine.policies.template(template).where
    relevance = None
    warnings: list[str] = []
    if options.relevance_given is not None:
        form = FormFunction(where)
        if len(form.atoms) > MOST_ATOMS:
            raise AdaptationError(
                f"A filter with relevance has at most {MOST_ATOMS} atoms, not {len(form.atoms)}."
            )
        relevance = _relevance(options.relevance_given, form, engine, node, template)
        against = atoms_against_nesting(form, relevance.levels)
        if against:
            atoms = form.texts()
            warnings = [
                "a lower priority selects less than a higher one by "
                + ", ".join(atoms[atom] for atom in against)
                + ": give it the relevance of what it is joined to by AND"
            ]
    texts = [(name, text) for name, text in options.texts if name not in ("where", "relevance")]
    if where is not None and where.two_valued:
        texts.append(("filter", _stored(where)))
    elif where is not None:
        texts.append(("where", where.to_text()))
    if relevance is not None:
        texts.append(("relevance", "levels:" + ",".join(map(str, relevance.levels))))
        if relevance.template:
            texts.append(("roles", relevance.template))
    found = replace(
        options, where=where, template="", relevance_given=None, relevance=relevance,
        texts=tuple(texts),
    )  # fmt: skip
    return found, warnings


def _stored(where: Filter) -> str:
    """Return a filter from XML as it is stored: node by node, since text would merge its atoms."""
    return msgspec.json.encode(filter_json(where)).decode()


def _relevance(
    given: object, form: FormFunction, engine: Engine, node: str, template: str
) -> Relevance:
    source = parse_relevance(given, engine.settings.levels)
    if isinstance(source, Learned):
        raise AdaptationError(f"There is no learned vector {source.name!r}: none was learned yet.")
    if isinstance(source, ByRole):
        if not template:
            raise AdaptationError(
                "Vectors of roles are for a template: subscribe with where template:NAME."
            )
        return Relevance(checked_vector(engine.role_levels(node, template), form), template)
    return Relevance(checked_vector(source, form))
