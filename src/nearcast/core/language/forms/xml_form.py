"""Seed C's subscriptions in XML: LOGICAL_OPERATORs over ATOMs, with distances and counts.

The resulting filter is two-valued, as the seed's matching is: an atom on a missing attribute is
false, and its negation true. A value that looks like a number is compared as a number with
numbers and as a text with texts, so such an atom becomes the OR of the two, which stays one atom.
``user`` becomes ``node('NAME')``, ``this`` becomes ``event`` and ``uform`` becomes
``earlier('FILTER')``, of which ``distance`` takes the nearest event.
"""

from xml.sax.saxutils import quoteattr

from msgspec import Struct

from nearcast.core.language.ast import COMPARISONS, LOGICAL, Node, Operation, Property
from nearcast.core.language.errors import LanguageError
from nearcast.core.language.filter import Filter
from nearcast.core.language.filter_atoms import compared, numeral, numeral_atom
from nearcast.core.language.forms.parser import parse_counted
from nearcast.core.language.forms.text_form import write_text
from nearcast.core.language.forms.xml_elements import Element, read_elements
from nearcast.core.language.limits import check_size
from nearcast.core.language.signatures import WHO, problem_with_name

OPERATORS = {op: op for op in COMPARISONS} | {"!=": "<>", "==": "="}
ATTRIBUTES = {
    "SUBSCRIPTION": ("filename",),
    "LOGICAL_OPERATOR": ("value",),
    "ATOM": ("name", "operator", "value"),
    "PARAMETER": ("name", "properties"),
}
EVERY_SUBJECT = "#"


class XmlSubscription(Struct, frozen=True):
    """A subscription file: its name and its filter, whose atoms a relevance vector weights."""

    filename: str
    filter: Filter


def parse_xml(text: str) -> XmlSubscription:
    """Parse a SUBSCRIPTION; raise LanguageError with a caret if it is invalid."""
    root = read_elements(text)
    return XmlReader(text).subscription(root)


def atoms(filter_: Filter) -> tuple[Node, ...]:
    """Return the atoms of a filter in the order in which they are written."""
    return filter_.atoms


class XmlReader:
    """Converts elements to a tree."""

    def __init__(self, text: str) -> None:
        self.text = text

    def subscription(self, element: Element) -> XmlSubscription:
        """Convert the root element."""
        self.check(element, "SUBSCRIPTION")
        if len(element.children) > 1:
            second = element.children[1]
            raise self.error(
                "A SUBSCRIPTION holds one LOGICAL_OPERATOR or ATOM, and the first has ended "
                "before this one; is there a closing tag too many?",
                second,
            )
        if not element.children:
            raise self.error("A SUBSCRIPTION holds one LOGICAL_OPERATOR or ATOM.", element)
        root = self.condition(element.children[0])
        check_size(root)
        return XmlSubscription(element.attributes.get("filename", ""), Filter(root, True))

    def condition(self, element: Element) -> Node:
        """Convert a LOGICAL_OPERATOR or an ATOM."""
        if element.tag == "ATOM":
            return self.atom(element)
        self.check(element, "LOGICAL_OPERATOR")
        op = element.attributes.get("value", "").lower()
        if op not in LOGICAL:
            raise self.error("The value of a LOGICAL_OPERATOR is AND, OR or NOT.", element)
        parts = tuple(self.condition(child) for child in element.children)
        if not parts or (op == "not" and len(parts) > 1):
            wanted = "one condition" if op == "not" else "at least one condition"
            raise self.error(f"{op.upper()} holds {wanted}, not {len(parts)}.", element)
        return parts[0] if op != "not" and len(parts) == 1 else Operation(op, parts)

    def atom(self, element: Element) -> Node:
        """Convert an ATOM: a comparison of an attribute, a distance or a count."""
        self.check(element, "ATOM", required=True)
        name, value = element.attributes["name"], element.attributes["value"]
        op = OPERATORS.get(element.attributes["operator"])
        if op is None:
            raise self.error("The operator of an ATOM is =, !=, <, <=, > or >=.", element)
        if name in ("distance", "count"):
            parameters = [self.parameter(child) for child in element.children]
            read = self.distance if name == "distance" else self.count
            return Operation(op, (read(parameters, element), self.numeral(value, element)))
        if element.children:
            raise self.error("Only distance and count take PARAMETERs.", element.children[0])
        return compared(op, self.property(name, element), value)

    def parameter(self, element: Element) -> tuple[str, Node]:
        """Return the kind of a PARAMETER and its node."""
        self.check(element, "PARAMETER", required=True)
        kind, given = element.attributes["name"], element.attributes["properties"]
        pairs = self.pairs(given, element)
        if kind == "this" and not pairs:
            return kind, Property("event")
        if kind == "user" and [name for name, _ in pairs] == ["username"] and pairs[0][1]:
            return kind, Operation("node", (pairs[0][1],))
        if kind == "uform":
            parts = [compared("=", self.property(n, element), v) for n, v in pairs]
            return kind, Operation("earlier", (joined(parts),))
        if kind == "distance" and [name for name, _ in pairs] == ["value"]:
            metres = self.numeral(pairs[0][1], element)
            if metres > 0:
                return kind, metres
            raise self.error("A distance is above 0.", element)
        raise self.error(
            'A PARAMETER is user ("username=NAME"), uform ("NAME=VALUE,..."), this ("") '
            'or distance ("value=METRES").',
            element,
        )

    def distance(self, parameters: list[tuple[str, Node]], element: Element) -> Node:
        """Return a distance between two PARAMETERs, at most one of which is a uform."""
        kinds = [kind for kind, _ in parameters]
        if len(kinds) != 2 or "distance" in kinds or kinds == ["uform", "uform"]:
            raise self.error(
                "distance takes two PARAMETERs: user or this, and user, this or uform.", element
            )
        return Operation("distance", tuple(node for _, node in parameters))

    def count(self, parameters: list[tuple[str, Node]], element: Element) -> Node:
        """Return a count of earlier events: near a user, near this event, or anywhere."""
        found = dict(parameters)
        kinds = set(found)
        near = kinds - {"uform", "distance"}
        alone = kinds == {"uform"}
        if len(found) < len(parameters) or not (
            alone or (len(near) == 1 and {"uform", "distance"} < kinds)
        ):
            raise self.error(
                "count takes the PARAMETER uform, alone or with distance and one of user or this.",
                element,
            )
        earlier = found["uform"]
        assert isinstance(earlier, Operation)
        if alone:
            return Operation("count", (EVERY_SUBJECT, *earlier.args))
        return Operation(
            "count", (EVERY_SUBJECT, *earlier.args, found["distance"], found[near.pop()])
        )

    def pairs(self, properties: str, element: Element) -> list[tuple[str, str]]:
        """Return the names and values of a PARAMETER's properties."""
        found: list[tuple[str, str]] = []
        for part in properties.split(",") if properties.strip() else ():
            name, equals, value = part.partition("=")
            if not equals or not name.strip():
                raise self.error("Properties are NAME=VALUE with commas between them.", element)
            found.append((name.strip(), value.strip()))
        return found

    def property(self, name: str, element: Element) -> Property:
        """Return the property of an attribute's name; raise LanguageError if it is reserved."""
        problem = problem_with_name(name)
        if name in WHO:
            problem = f"{name} is reserved; the attribute is event.attributes.{name}."
        if problem:
            raise self.error(problem, element)
        return Property(name)

    def numeral(self, value: str, element: Element) -> int | float:
        """Return a value as a number; raise LanguageError if it is not one."""
        found = numeral(value)
        if found is None:
            raise self.error(f"Expected a number, not {value[:40]!r}.", element)
        return found

    def check(self, element: Element, tag: str, required: bool = False) -> None:
        """Reject another tag, unknown attributes and, if `required`, missing ones."""
        if element.tag != tag:
            raise self.error(f"Expected {tag}, not {element.tag}.", element)
        known = ATTRIBUTES[tag]
        wrong = [name for name in element.attributes if name not in known]
        missing = [name for name in known if required and name not in element.attributes]
        if wrong or missing:
            problem = f"has no {wrong[0]}" if wrong else f"lacks {missing[0]}"
            raise self.error(f"{tag} {problem}; it has {', '.join(known)}.", element)

    def error(self, message: str, element: Element) -> LanguageError:
        """Return an error that points at an element."""
        return LanguageError(message, self.text, element.position)


def joined(parts: list[Operation]) -> str:
    """Return CQL2 text for conditions that must all hold."""
    if not parts:
        return ""
    return write_text(parts[0] if len(parts) == 1 else Operation("and", tuple(parts)))


def to_xml(filter_: Filter, filename: str = "") -> str:
    """Return XML that `parse_xml` can parse; raise LanguageError if XML cannot express it."""
    if not filter_.two_valued:
        raise LanguageError("Only a two-valued filter means in XML what it means here.")
    lines = [f"<SUBSCRIPTION filename={quoteattr(filename)}>"]
    lines += write_condition(filter_.root, "  ")
    return "\n".join((*lines, "</SUBSCRIPTION>", ""))


def write_condition(node: Node, indent: str) -> list[str]:
    """Return the lines of a condition."""
    atom = numeral_atom(node) or node
    if not isinstance(atom, Operation):
        raise inexpressible(node)
    if atom.op in LOGICAL:
        inner = [line for arg in atom.args for line in write_condition(arg, indent + "  ")]
        opening = f'{indent}<LOGICAL_OPERATOR value="{atom.op.upper()}">'
        return [opening, *inner, f"{indent}</LOGICAL_OPERATOR>"]
    if atom.op not in COMPARISONS:
        raise inexpressible(node)
    left, right = atom.args
    if isinstance(left, Property) and isinstance(right, str):
        return [f"{indent}{opened(left.name, atom.op, right)}/>"]
    if not isinstance(left, Operation) or isinstance(right, bool):
        raise inexpressible(node)
    lines = [f"{indent}{opened(left.op, atom.op, str(right))}>"]
    lines += [f"{indent}  {parameter}" for parameter in write_parameters(left)]
    return [*lines, f"{indent}</ATOM>"]


def opened(name: str, op: str, value: str) -> str:
    """Return an ATOM's tag without its closing bracket."""
    return f"<ATOM name={quoteattr(name)} operator={quoteattr(op)} value={quoteattr(value)}"


def write_parameters(node: Operation) -> list[str]:
    """Return the PARAMETERs of a distance or a count."""
    if node.op == "distance":
        return [write_parameter(arg) for arg in node.args]
    if node.op != "count":
        raise inexpressible(node)
    written = [write_parameter(Operation("earlier", node.args[1:2]))]
    if len(node.args) == 4:
        written.append(write_parameter(node.args[3]))
        written.append(f'<PARAMETER name="distance" properties="value={node.args[2]}"/>')
    return written


def write_parameter(node: Node) -> str:
    """Return one PARAMETER."""
    if node == Property("event"):
        return '<PARAMETER name="this" properties=""/>'
    if isinstance(node, Operation) and node.op == "node":
        return f'<PARAMETER name="user" properties={quoteattr(f"username={node.args[0]}")}/>'
    if isinstance(node, Operation) and node.op == "earlier":
        pairs = ",".join(f"{name}={value}" for name, value in selected(str(node.args[0])))
        return f'<PARAMETER name="uform" properties={quoteattr(pairs)}/>'
    raise inexpressible(node)


def selected(text: str) -> list[tuple[str, str]]:
    """Return the names and values in the filter of a uform."""
    root = parse_counted(text)
    if root is None:
        return []
    parts = root.args if isinstance(root, Operation) and root.op == "and" else (root,)
    pairs: list[tuple[str, str]] = []
    for part in parts:
        atom = numeral_atom(part) or part
        if not isinstance(atom, Operation) or not isinstance(atom.args[0], Property):
            raise inexpressible(part)
        pairs.append((atom.args[0].name, str(atom.args[1])))
    return pairs


def inexpressible(node: Node) -> LanguageError:
    """Return the error for a node that seed C's XML has no element for."""
    return LanguageError(f"Seed C's XML cannot express {write_text(node)}.")
