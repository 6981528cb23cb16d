"""Files of policies: JSON or TOML with KIND -> NAME -> document, or one policy as XML.

They are read and checked as the broker does, before anything is sent. How many levels the broker
has is not known here: a document is checked for the number that it is written for.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.policy_documents import (
    AWARENESS,
    MATRIX,
    OF_TEMPLATE,
    TEMPLATE,
    PolicyDocument,
    PolicyValue,
    Template,
    check_fit,
    check_key,
    check_length,
    checked_policy,
    kind_of_xml,
    read_document,
)
from nearcast.core.adaptation.policy_xml import PolicyElements
from nearcast.core.adaptation.priority_matrix import MOST_LEVELS

PolicyKey = tuple[str, str]
"""Kind and name."""


class FiledPolicy(Struct, frozen=True):
    """A policy of a file: what is sent, and what it says."""

    kind: str
    name: str
    text: str
    value: PolicyValue

    @property
    def key(self) -> PolicyKey:
        """Kind and name."""
        return self.kind, self.name


def read_policies(path: Path, name: str | None) -> list[FiledPolicy]:
    """Return all policies of a file; raise AdaptationError that names all that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise AdaptationError(f"{path} is no text: byte {error.start} is not UTF-8.") from None
    if path.suffix == ".toml":
        try:
            members: PolicyDocument = tomllib.loads(text)
        except ValueError as error:
            raise AdaptationError(f"{path}: {error}.") from None
    else:
        try:
            members = read_document(text)
        except AdaptationError as error:
            raise AdaptationError(f"{path}: {error}") from None
    if isinstance(members, PolicyElements):
        return [_from_xml(path, members, name)]
    if name is not None:
        raise AdaptationError(f"{path} says the names itself, as KIND -> NAME -> document.")
    return _from_members(path, members)


def _from_xml(path: Path, document: PolicyElements, name: str | None) -> FiledPolicy:
    try:
        kind = kind_of_xml(document)
        value = checked_policy(kind, document, MOST_LEVELS)
    except AdaptationError as error:
        raise AdaptationError(f"{path}: {error}") from None
    if name is None and isinstance(value, Template):
        name = value.filename or None
    if name is None:
        missing = " or a filename in the file" if kind == TEMPLATE else ""
        raise AdaptationError(f"{path}: its policy of kind {kind} needs --name NAME{missing}.")
    check_key(kind, name)
    return FiledPolicy(kind, name, document.text, value)


def _from_members(path: Path, members: Mapping[str, object]) -> list[FiledPolicy]:
    found: list[FiledPolicy] = []
    wrong: list[str] = []
    for kind, name, document in _documents(members, wrong):
        try:
            check_key(kind, name)
            value = checked_policy(kind, document, _own_levels(kind, document))
            # Open ends of TOML, inf and -inf, become null.
            text = msgspec.json.encode(document).decode()
            check_length(text)
            found.append(FiledPolicy(kind, name, text, value))
        except AdaptationError as error:
            wrong.append(f"{kind}/{name}: {error}")
    wrong += _misfits(found)
    if not found and not wrong:
        wrong = ["there is no policy; a file has KIND -> NAME -> document."]
    if wrong:
        raise AdaptationError("\n".join(f"{path}: {each}" for each in wrong))
    return found


def _documents(
    members: Mapping[str, object], wrong: list[str]
) -> Iterator[tuple[str, str, Mapping[str, object]]]:
    for kind, named in members.items():
        if not isinstance(named, Mapping):
            wrong.append(f"{kind}: a file has KIND -> NAME -> document.")
            continue
        for name, document in named.items():
            if isinstance(document, Mapping):
                yield kind, name, document
            else:
                wrong.append(f"{kind}/{name}: a document is an object (in TOML a table).")


def _own_levels(kind: str, document: Mapping[str, object]) -> int:
    """The number of levels that a document is written for."""
    counted: object = None
    if kind == MATRIX:
        counted = document.get("rows")
    elif kind == AWARENESS:
        modules = document.get("modules")
        first = next(iter(modules.values()), None) if isinstance(modules, Mapping) else None
        counted = first.get("intervals") if isinstance(first, Mapping) else None
    if isinstance(counted, list) and 0 < len(counted) <= MOST_LEVELS:
        return len(counted)
    return 3 if kind in (MATRIX, AWARENESS) else MOST_LEVELS


def _misfits(policies: list[FiledPolicy]) -> Iterator[str]:
    """Yield what is wrong between templates and what is for their atoms."""
    by_key = {each.key: each.value for each in policies}
    for (kind, name), value in by_key.items():
        template = by_key.get((TEMPLATE, name))
        if kind in OF_TEMPLATE and isinstance(template, Template):
            try:
                check_fit(name, template, {kind: value})
            except AdaptationError as error:
                yield str(error)
