"""Size limits of filters: bounds on the work that one subscriber can cause in a broker."""

from nearcast.core.language.ast import BBox, Geometry, Node, walk
from nearcast.core.language.errors import LanguageError

MAX_TEXT = 16 * 1024
MAX_JSON_TEXT = 128 * 1024
MAX_XML_TEXT = 64 * 1024
MAX_DEPTH = 64
MAX_NODES = 512
MAX_VERTICES = 4096


def check_size(root: Node, text: str = "") -> None:
    """Raise LanguageError if a tree is too deep or has too many nodes or vertices."""
    vertices = 0
    for nodes, (node, depth) in enumerate(walk(root), 1):
        if depth > MAX_DEPTH:
            raise too_deep(text, 0)
        if nodes > MAX_NODES:
            raise LanguageError(f"The filter has more than {MAX_NODES} parts.", text)
        if isinstance(node, Geometry):
            vertices += vertex_count(node)
        elif isinstance(node, BBox):
            vertices += 2
        if vertices > MAX_VERTICES:
            raise LanguageError(
                f"The filter's geometries have more than {MAX_VERTICES} points.", text
            )


def too_deep(text: str, position: int) -> LanguageError:
    """Return the error for a filter that is nested too deeply."""
    return LanguageError(f"The filter is nested more than {MAX_DEPTH} deep.", text, position)


def vertex_count(geometry: Geometry) -> int:
    """Return the number of points of a geometry."""
    count = sum(vertex_count(part) for part in geometry.geometries)
    pending: list[object] = [geometry.coordinates]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple) and item:
            if isinstance(item[0], tuple):
                pending.extend(item)
            else:
                count += 1
    return count
