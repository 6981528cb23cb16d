"""All exceptions have one root, whose docstring shows them as a tree."""

import ast
import builtins
import inspect
from collections.abc import Iterator
from pathlib import Path

import nearcast
from nearcast.errors import NearcastError

PACKAGE = Path(__file__).parents[1] / "src" / "nearcast"
ROOT = NearcastError.__name__
BUILTINS = frozenset(
    name
    for name, found in vars(builtins).items()
    if isinstance(found, type) and issubclass(found, BaseException)
)


def bases_by_class() -> dict[str, tuple[str, ...]]:
    """Return the bases of every class of the package that derives from an exception."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                bases = tuple(ast.unparse(base).rpartition(".")[2] for base in node.bases)
                if any(base in BUILTINS or base.endswith("Error") for base in bases):
                    assert node.name not in found, f"two classes are named {node.name}"
                    found[node.name] = bases
    return found


def tree(classes: dict[str, tuple[str, ...]], name: str = ROOT, depth: int = 0) -> Iterator[str]:
    """Yield the lines of the tree below a class, with a mark at each that is a ValueError too."""
    for child in sorted(each for each, bases in classes.items() if bases[0] == name):
        yield "    " * depth + child + (" (V)" if "ValueError" in classes[child] else "")
        yield from tree(classes, child, depth + 1)


def test_the_docstring_of_the_root_shows_every_exception() -> None:
    lines = list(tree(bases_by_class()))
    shown = (inspect.getdoc(NearcastError) or "").split("\n\n")[1]
    assert shown.splitlines() == [f"    {line}" for line in lines]
    assert {line.split()[0] for line in lines} == bases_by_class().keys() - {ROOT}


def test_the_root_is_public() -> None:
    assert nearcast.NearcastError is NearcastError
    assert issubclass(nearcast.LanguageError, nearcast.NearcastError)
    assert issubclass(nearcast.ClientError, nearcast.NearcastError)
