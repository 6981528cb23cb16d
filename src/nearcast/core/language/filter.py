"""A filter: a condition on events that can be parsed, written, compared and evaluated."""

from collections.abc import Mapping

from msgspec import Struct

from nearcast.core.language.ast import Node, Operation, alike, walk
from nearcast.core.language.errors import LanguageError
from nearcast.core.language.evaluation.evaluator import truth
from nearcast.core.language.evaluation.scope import PropertiesScope, Scope, Value
from nearcast.core.language.filter_atoms import atoms_of
from nearcast.core.language.forms.geojson import Json
from nearcast.core.language.forms.json_form import parse_json, parse_json_text, write_json
from nearcast.core.language.forms.parser import parse_text
from nearcast.core.language.forms.text_form import write_text
from nearcast.core.language.limits import MAX_TEXT


class Filter(Struct, frozen=True, eq=False, gc=False):
    """A condition; `two_valued` if it comes from seed C's XML, where unknown atoms are false."""

    root: Node
    two_valued: bool = False

    def to_text(self) -> str:
        """Return CQL2 text that `parse` reads back as an equal filter."""
        return write_text(self.root)

    def to_json(self) -> Json:
        """Return the CQL2 JSON value that `parse` reads back as an equal filter."""
        return write_json(self.root)

    def evaluate(self, properties: Mapping[str, Value]) -> bool | None:
        """Return whether one event's properties satisfy the filter; None is unknown."""
        return truth(self.root, PropertiesScope(properties), self.two_valued)

    def evaluate_in(self, scope: Scope) -> bool | None:
        """Return whether the filter holds in a scope; None is unknown."""
        return truth(self.root, scope, self.two_valued)

    @property
    def atoms(self) -> tuple[Node, ...]:
        """Its parts without AND, OR and NOT, in the order in which they are written."""
        return tuple(atoms_of(self.root, self.two_valued))

    @property
    def counted_subjects(self) -> tuple[str, ...]:
        """The subject patterns of the earlier events it refers to; empty for most filters."""
        found: dict[str, None] = {}
        for node, _ in walk(self.root):
            if isinstance(node, Operation) and node.op == "count":
                found[str(node.args[0])] = None
            elif isinstance(node, Operation) and node.op == "earlier":
                found["#"] = None
        return tuple(found)

    @property
    def named_nodes(self) -> set[str]:
        """The nodes that it names; only filters from XML name any."""
        return {
            str(node.args[0])
            for node, _ in walk(self.root)
            if isinstance(node, Operation) and node.op == "node"
        }

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Filter)
            and self.two_valued == other.two_valued
            and alike((self.root,), (other.root,))
        )

    def __hash__(self) -> int:
        return hash((self.root, self.two_valued))


def parse(source: str | bool | Mapping[str, object]) -> Filter:
    """Read a filter from CQL2 text, CQL2 JSON text (it begins with ``{``) or a JSON value.

    Raise LanguageError, with the problem, a correction and the position, if it is invalid.
    """
    if not isinstance(source, str):
        root = parse_json(source)
    elif source[:MAX_TEXT].lstrip().startswith("{"):
        root = parse_json_text(source)
    else:
        root = parse_text(source)
    found = Filter(root)
    # A filter must parse again once written; added brackets and full numbers may lengthen it.
    length = len(found.to_text())
    if length > MAX_TEXT:
        raise LanguageError(
            f"The filter is longer than {MAX_TEXT} characters when written out ({length})."
        )
    return found


parse_filter = parse
"""The name of `parse` outside this package."""
