"""Elements of a small XML text with their positions, without entities or document types."""

import re
from xml.parsers import expat

from msgspec import Struct

from nearcast.core.language.errors import LanguageError
from nearcast.core.language.limits import MAX_DEPTH, MAX_XML_TEXT

NAME = re.compile(r"[\w.:-]+")


class Element(Struct):
    """One element; `position` is the offset of its ``<`` in characters."""

    tag: str
    attributes: dict[str, str]
    position: int
    line: int
    children: list["Element"]


def read_elements(text: str) -> Element:
    """Return the root element; raise LanguageError with a caret if the text is not well-formed."""
    if len(text) > MAX_XML_TEXT:
        raise LanguageError(f"The XML is longer than {MAX_XML_TEXT} characters ({len(text)}).")
    try:
        return ElementReader(text).root()
    except UnicodeEncodeError as problem:
        raise LanguageError(
            "Half of a surrogate pair is not a character.", text, problem.start
        ) from None


class ElementReader:
    """Builds the elements from the callbacks of expat."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = text.encode()
        self.open: list[Element] = []
        self.roots: list[Element] = []
        # Overrides a declared encoding, which describes a file; this text is already decoded.
        self.expat = expat.ParserCreate("utf-8")
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.characters
        # Entities can only be declared in a document type: without one there is nothing to expand.
        self.expat.StartDoctypeDeclHandler = self.doctype

    def root(self) -> Element:
        """Parse the whole text and return the root element."""
        try:
            self.expat.Parse(self.data, True)
        except expat.ExpatError as problem:
            raise self.malformed(problem) from None
        return self.roots[0]

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Add an element to its parent and open it."""
        if len(self.open) >= MAX_DEPTH:
            raise self.error(f"The elements are nested more than {MAX_DEPTH} deep.")
        element = Element(tag, attributes, self.place(), self.expat.CurrentLineNumber, [])
        (self.open[-1].children if self.open else self.roots).append(element)
        self.open.append(element)

    def end(self, tag: str) -> None:
        """Close the innermost open element."""
        self.open.pop()

    def characters(self, data: str) -> None:
        """Reject text between elements."""
        if data.strip():
            raise self.error(f"Text is not expected inside {self.open[-1].tag}; remove it.")

    def doctype(self, *_: object) -> None:
        """Reject a document type."""
        raise self.error("A DOCTYPE is not allowed; remove it.")

    def malformed(self, problem: expat.ExpatError) -> LanguageError:
        """Return the error for text that is not well-formed XML."""
        reason = expat.errors.messages.get(problem.code, "not well-formed")
        message = f"This is not well-formed XML: {reason}."
        place = self.offset(self.expat.ErrorByteIndex)
        if reason == expat.errors.XML_ERROR_TAG_MISMATCH and self.open:
            last = self.open[-1]
            closed = NAME.match(self.text, place)
            stray = closed is not None and all(e.tag != closed.group() for e in self.open)
            message = (
                "No element of this name is open; remove this closing tag, or an earlier one."
                if stray
                else f"The {last.tag} opened on line {last.line} is still open here; "
                f"close it first with </{last.tag}>."
            )
        elif reason == expat.errors.XML_ERROR_NO_ELEMENTS and self.open:
            last = self.open[-1]
            message = f"The {last.tag} opened on line {last.line} is never closed."
        return LanguageError(message, self.text, place)

    def error(self, message: str) -> LanguageError:
        """Return an error at the current position."""
        return LanguageError(message, self.text, self.place())

    def place(self) -> int:
        """Return the current position, in characters."""
        return self.offset(self.expat.CurrentByteIndex)

    def offset(self, byte: int) -> int:
        """Convert a byte offset to a character offset."""
        return len(self.data[: max(0, byte)].decode(errors="ignore"))
