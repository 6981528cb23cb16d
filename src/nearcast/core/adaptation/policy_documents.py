"""Policy documents: texts under a kind and a name, read as templates, roles, awareness and so on.

A document is a JSON object, or one of seed C's XML files: a SUBSCRIPTION is a template, RELEVANCE
holds the vectors of roles and tasks, SERVERLIST those of servers. What is wrong is said with what
would be right, and in XML with the line.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn

import msgspec

from nearcast.core.adaptation.awareness import Awareness, checked_awareness
from nearcast.core.adaptation.errors import AdaptationError, PolicySyntaxError
from nearcast.core.adaptation.form_function import MOST_ATOMS, FormFunction
from nearcast.core.adaptation.policy_xml import PolicyElements
from nearcast.core.adaptation.priority_matrix import PriorityMatrix, checked_matrix
from nearcast.core.adaptation.relevance import Levels, checked_vector
from nearcast.core.adaptation.role_vectors import RoleVectors, checked_roles, roles_from_xml
from nearcast.core.adaptation.server_list import ServerList, checked_servers, servers_from_xml
from nearcast.core.excerpts import pointed, reason
from nearcast.core.language import Filter, LanguageError, parse
from nearcast.core.language.forms.xml_elements import read_elements
from nearcast.core.language.forms.xml_form import XmlReader
from nearcast.core.model.errors import did_you_mean

TEMPLATE, ROLES, AWARENESS, MATRIX, SERVERS = "template", "roles", "awareness", "matrix", "servers"
KINDS = (TEMPLATE, ROLES, AWARENESS, MATRIX, SERVERS)
OF_TEMPLATE = (ROLES, SERVERS)
"""Kinds whose vectors are for the atoms of the template with the same name."""
ROOTS = {"SUBSCRIPTION": TEMPLATE, "RELEVANCE": ROLES, "SERVERLIST": SERVERS}
"""The kinds that have an XML form, by the root of it."""
LARGEST_DOCUMENT = 64 * 1024
"""In characters."""
LONGEST_NAME = 256
_BYTE = re.compile(r"\(byte (\d+)\)")


class Template(msgspec.Struct, frozen=True):
    """A subscription kept under a name; clients give a vector for the atoms of its filter."""

    where: Filter
    filename: str = ""
    """The name that an XML file gives itself."""


PolicyValue = Template | RoleVectors | Awareness | PriorityMatrix | ServerList
PolicyDocument = Mapping[str, object] | PolicyElements
"""The members of a JSON object, or the elements of XML."""


def parse_policy(kind: str, name: str, text: str, levels: int) -> PolicyValue:
    """Read a policy from its text; raise AdaptationError that says what is wrong where.

    PolicySyntaxError: the text is neither a JSON object nor XML.
    """
    check_key(kind, name)
    check_length(text)
    return checked_policy(kind, read_document(text), levels)


def check_key(kind: str, name: str) -> None:
    """Raise AdaptationError if there is no such kind, or if the name is none."""
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS)
        raise AdaptationError(
            f"There is no kind of policy {kind[:40]!r}; the kinds are {', '.join(KINDS)}{hint}"
            + ("" if hint else ".")
        )
    if not name or len(name) > LONGEST_NAME:
        raise AdaptationError(f"The name of a policy has 1 to {LONGEST_NAME} characters.")


def check_length(text: str) -> None:
    """Raise AdaptationError if the text of a policy is too long."""
    if len(text) > LARGEST_DOCUMENT:
        raise AdaptationError(
            f"A policy has at most {LARGEST_DOCUMENT} characters, not {len(text)}."
        )


def read_document(text: str) -> PolicyDocument:
    """Return the members of a JSON object, or the elements of XML (text that begins with ``<``)."""
    text = text.removeprefix("\ufeff")
    if text.lstrip(" \t\r\n").startswith("<"):
        try:
            return PolicyElements(text, read_elements(text))
        except LanguageError as error:
            raise PolicySyntaxError(f"Line {error.line}: {error}") from None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        _refuse_json(text, error)
    if not isinstance(value, dict):
        raise PolicySyntaxError("Line 1: a policy is a JSON object or XML, not another JSON value.")
    return value


def checked_policy(kind: str, document: PolicyDocument, levels: int) -> PolicyValue:
    """Return the value of a document of a kind; raise AdaptationError."""
    if not isinstance(document, PolicyElements):
        return _FROM_JSON[kind](document, levels)
    root = document.root
    if ROOTS.get(root.tag) != kind:
        expected = next((tag for tag, known in ROOTS.items() if known == kind), None)
        form = "a JSON object, without an XML form" if expected is None else f"XML <{expected}>"
        raise document.error(f"A policy of kind {kind} is {form}, not <{root.tag}>.", root)
    if kind == TEMPLATE:
        try:
            found = XmlReader(document.text).subscription(root)
        except LanguageError as error:
            raise AdaptationError(f"Line {error.line}: {error}") from None
        return Template(found.filter, found.filename)
    read = roles_from_xml if kind == ROLES else servers_from_xml
    return read(document, levels)


def kind_of_xml(document: PolicyElements) -> str:
    """Return the kind of policy that XML is by its root; raise AdaptationError if it is none."""
    root = document.root
    if root.tag not in ROOTS:
        raise document.error(f"The root of a policy is {', '.join(ROOTS)}, not {root.tag}.", root)
    return ROOTS[root.tag]


def check_fit(name: str, template: Template, others: Mapping[str, PolicyValue]) -> None:
    """Raise AdaptationError if vectors, by their kinds, do not fit the template of their name."""
    form = FormFunction(template.where)
    for kind, value in others.items():
        for label, vector in _vectors(value):
            where = f"{kind}/{name} does not fit {TEMPLATE}/{name}: {label}"
            if len(form.atoms) > MOST_ATOMS:
                raise AdaptationError(
                    f"{where}: relevance is for filters of at most {MOST_ATOMS} atoms, and the "
                    f"template has {len(form.atoms)}."
                )
            try:
                checked_vector(vector, form)
            except AdaptationError as error:
                raise AdaptationError(f"{where}: {error}") from None


def _vectors(value: PolicyValue) -> Iterator[tuple[str, Levels]]:
    if isinstance(value, RoleVectors | ServerList):
        yield from value.labelled()


def _template(members: Mapping[str, object], levels: int) -> Template:
    _only(members, "template", "where")
    where = members.get("where")
    if not isinstance(where, str | Mapping):
        raise AdaptationError(
            'A template has "where", a filter as text or CQL2 JSON, such as {"where": "size <= '
            '100"}.'
        )
    try:
        return Template(parse(where))
    except LanguageError as error:
        raise AdaptationError(f'"where": {error}') from None


def _matrix(members: Mapping[str, object], levels: int) -> PriorityMatrix:
    _only(members, "matrix", "rows")
    return checked_matrix(members.get("rows"), levels)


def _only(members: Mapping[str, object], what: str, *known: str) -> None:
    unknown = sorted(set(members) - set(known))
    if unknown:
        names = " and ".join(f'"{each}"' for each in known)
        raise AdaptationError(f"A {what} has {names}, not {unknown[0][:40]!r}.")


def _refuse_json(text: str, error: Exception) -> NoReturn:
    """Raise PolicySyntaxError with the line of the problem."""
    found = _BYTE.search(str(error))
    data = text.encode(errors="replace")
    place = len(data[: int(found[1])].decode(errors="ignore")) if found else len(text.rstrip())
    line = text.count("\n", 0, place) + 1
    problem = f"Line {line}: a policy is a JSON object or XML, and this is neither: {reason(error)}"
    raise PolicySyntaxError(pointed(problem, text, place)) from None


_FROM_JSON: dict[str, Callable[[Mapping[str, object], int], PolicyValue]] = {
    TEMPLATE: _template,
    ROLES: checked_roles,
    AWARENESS: checked_awareness,
    MATRIX: _matrix,
    SERVERS: checked_servers,
}
