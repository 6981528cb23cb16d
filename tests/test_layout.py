"""Tests lie in folders that mirror the package, and what several of them use is written once.

Whatever tests of several folders use lies in `tests/support`; a module beside tests is for its own
folder and those below. No test module imports another, and no two modules define the same function
or class under the same name.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ACROSS_ROOMS = ("chaos", "clients", "conformance", "fuzz", "scenario", "situation", "support")
"""Folders of `tests` that no folder of the package corresponds to."""


def violations(tests: Path) -> list[str]:
    """Return what is imported from, or written again in, a place where it should not be."""
    found: list[str] = []
    definitions: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("*.py")):
        where = path.relative_to(tests).as_posix()
        tree = ast.parse(path.read_bytes())
        for line, module in imported_modules(tree, tests):
            folder = module.parent
            if module.stem.startswith("test_") or module.stem == "conftest":
                found.append(f"{where}:{line}: imports {module.stem}, which holds tests")
            elif folder.parts[:1] != ("support",) and folder not in Path(where).parents:
                found.append(f"{where}:{line}: imports {module.stem} of a folder beside it")
        for name, shape in shapes(tree):
            definitions[name, shape].append(where)
    for (name, _), modules in definitions.items():
        if len(modules) > 1:
            found.append(f"{modules[0]}: {name} is also in {', '.join(modules[1:])}")
    return found


def imported_modules(tree: ast.Module, tests: Path) -> Iterator[tuple[int, Path]]:
    """Yield the modules of `tests` that a file imports, relative to it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("tests"):
            continue
        base = Path(*(node.module or "").split(".")[1:])
        for alias in node.names:
            inside = base / f"{alias.name}.py"
            yield node.lineno, inside if (tests / inside).exists() else base.with_suffix(".py")


def shapes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names of functions and classes that are no tests, and what they do.

    Docstrings do not count, nor do the values of constants.
    """
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if node.name.startswith("test_"):
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Constant):
                part.value = None
            elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                part.body = [each for each in part.body if not is_docstring(each)]
        yield node.name, ast.dump(node)


def is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def test_no_test_module_is_imported_and_nothing_is_written_twice() -> None:
    assert violations(ROOT / "tests") == []


def test_every_folder_of_tests_is_one_of_the_package() -> None:
    folders = {
        path.parent.relative_to(ROOT / "tests")
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.parent != ROOT / "tests"
    }
    missing = {
        folder.as_posix()
        for folder in folders
        if folder.parts[0] not in ACROSS_ROOMS
        and not (ROOT / "src" / "nearcast" / folder / "__init__.py").exists()
    }
    assert missing == set()


UNTIL = 'def until(holds):\n    """Wait."""\n    while not holds():\n        sleep(0.1)\n'
VIOLATIONS = {
    "from a test module": ("broker/test_x.py", "from tests.broker.test_hub import run"),
    "a test module": ("broker/test_x.py", "from tests.broker import test_hub"),
    "from a conftest": ("broker/test_x.py", "from tests.broker.conftest import run"),
    "inside a function": ("x.py", "def f():\n    from tests.broker.test_hub import run"),
    "from the folder beside": ("store/test_x.py", "from tests.broker.peers import Peer"),
    "the same again": ("store/test_x.py", UNTIL.replace("Wait.", "Wait!").replace("0.1", "2")),
}
FINE = {
    "from support": ("store/test_x.py", "from tests.support.waiting import until"),
    "from its own folder": ("broker/test_x.py", "from tests.broker.peers import Peer"),
    "from the folder above": ("broker/net/test_x.py", "from tests.broker.peers import Peer"),
    "the same name": ("store/test_x.py", "def until(moment):\n    return moment"),
    "the same test": ("store/test_x.py", "def test_it():\n    assert True"),
}


def small_tree(root: Path, file: str, text: str) -> Path:
    """Write a folder of tests, with one file that holds something."""
    tests = root / "tests"
    written = {
        "support/waiting.py": UNTIL,
        "broker/peers.py": "class Peer: ...",
        "broker/test_hub.py": "def test_it():\n    assert True",
        "broker/conftest.py": "",
        file: text,
    }
    for name, content in written.items():
        (tests / name).parent.mkdir(parents=True, exist_ok=True)
        (tests / name).write_text(content)
    return tests


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_found(name: str, tmp_path: Path) -> None:
    assert len(violations(small_tree(tmp_path, *VIOLATIONS[name]))) == 1


@pytest.mark.parametrize("name", FINE)
def test_what_is_allowed_is_not(name: str, tmp_path: Path) -> None:
    assert violations(small_tree(tmp_path, *FINE[name])) == []
