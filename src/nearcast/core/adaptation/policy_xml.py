"""Elements of a policy in XML: what is read from them, and errors with their line."""

from msgspec import Struct

from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.relevance import Levels, parse_relevance
from nearcast.core.language import LanguageError
from nearcast.core.language.forms.xml_elements import Element


class PolicyElements(Struct, frozen=True):
    """The elements of a text."""

    text: str
    root: Element

    def error(self, message: str, element: Element) -> AdaptationError:
        """Return an error that points at an element."""
        pointing = LanguageError(message, self.text, element.position)
        return AdaptationError(f"Line {element.line}: {pointing}")

    def check(
        self, element: Element, tag: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> None:
        """Raise AdaptationError at another tag, a missing attribute or an unknown one."""
        if element.tag != tag:
            raise self.error(f"Expected {tag}, not {element.tag}.", element)
        known = (*required, *optional)
        wrong = [name for name in element.attributes if name not in known]
        missing = [name for name in required if not element.attributes.get(name, "").strip()]
        if wrong or missing:
            problem = f"has no {wrong[0]}" if wrong else f"lacks {missing[0]}"
            what = f"it has {', '.join(known)}" if known else "it has no attributes"
            raise self.error(f"{tag} {problem}; {what}.", element)

    def children(self, element: Element, tag: str) -> list[Element]:
        """Return the children of an element, all of one tag; raise AdaptationError."""
        if not element.children:
            raise self.error(f"{element.tag} holds at least one {tag}.", element)
        for child in element.children:
            if child.tag != tag:
                raise self.error(f"{element.tag} holds {tag}, not {child.tag}.", child)
        return element.children

    def vector(self, element: Element, levels: int) -> Levels:
        """Return the relevance vector in the attribute `value` of an element."""
        try:
            return vector_of(element.attributes["value"], levels)
        except AdaptationError as error:
            raise self.error(str(error), element) from None


def vector_of(given: object, levels: int) -> Levels:
    """Return a vector that is written out; raise AdaptationError if it is only named."""
    found = parse_relevance(given, levels)
    if not isinstance(found, tuple):
        raise AdaptationError(
            "A policy gives the vector itself: a number from 0 to 1 for each atom, or levels."
        )
    return found
