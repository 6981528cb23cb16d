"""The house keeps its order: which rooms may import which, what the core may not touch.

    errors < core < logs < wire < store, placement, simulation < client
         < broker, overlay, adhoc, pipeline < experiments, console, benchmarks < cli

A room imports from lower levels only, and from no other room of its own level; imports for types
count too, except inside the core. Also here: nothing in the repository names a package registry
or a directory of somebody's machine.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "nearcast"

LEVELS = (
    ("errors", "_lazy_names"),
    ("core",),
    ("logs",),
    ("wire",),
    ("store", "placement", "simulation"),
    ("client",),
    ("broker", "overlay", "adhoc", "pipeline"),
    ("experiments", "console", "benchmarks"),
    ("cli",),
)
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
TOP = len(LEVELS) - 1
# Modules at the top of the package that start programs; `testing` is public, made of all below.
DOORS = {"__main__": TOP, "_kernel_cache": TOP, "_warm_up": TOP, "testing": LEVEL["experiments"]}

IO_MODULES = frozenset(
    (
        "asyncio", "builtins", "concurrent", "contextvars", "ctypes", "fcntl", "ftplib",
        "getpass", "glob", "http", "io", "logging", "mmap", "multiprocessing", "os", "pathlib",
        "pickle", "platform", "queue", "random", "resource", "sched", "secrets", "select",
        "selectors", "shelve", "shutil", "signal", "smtplib", "socket", "socketserver",
        "sqlite3", "ssl", "subprocess", "syslog", "tempfile", "threading", "time",
        "urllib.request", "uuid", "warnings",
    )
)  # fmt: skip
IO_CALLS = frozenset(("open", "print", "input", "breakpoint", "exec", "eval", "__import__"))
CLOCK_CALLS = frozenset(("datetime.now", "datetime.utcnow", "datetime.today", "date.today"))
ROOT_FUNCTIONS = frozenset(("__getattr__", "__dir__"))


class Import(Struct, frozen=True):
    """One module that a file imports, and whether only for types."""

    module: str
    line: int
    for_types: bool


def violations(package: Path) -> list[str]:
    """Return every import or call that the order of the house forbids."""
    found: list[str] = []
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        parts = path.relative_to(package).with_suffix("").parts
        where = path.relative_to(package).as_posix()
        if parts == ("__init__",):
            found += (f"{where}:{line}: {what}" for line, what in not_public_names(tree))
            continue
        for imported in imports(tree, ("nearcast", *parts), package):
            problem = problem_with(parts, imported)
            if problem:
                found.append(f"{where}:{imported.line}: {problem}")
        if parts[0] == "core":
            found += (f"{where}:{line}: {what}" for line, what in impurities(tree))
    return found


def problem_with(parts: tuple[str, ...], imported: Import) -> str | None:
    """Return why a file may not import a module, or None if it may."""
    room = parts[0]
    target = imported.module.split(".")
    if target[0] != "nearcast":
        foreign = any(
            imported.module == name or imported.module.startswith(f"{name}.") for name in IO_MODULES
        )
        if room == "core" and foreign and not imported.for_types:
            return f"the core does no I/O and has no clock, but imports {imported.module}"
        return None
    own = LEVEL.get(room, DOORS.get(room))
    if own is None:
        return f"{room} has no place in the house; give it one in LEVELS"
    if len(target) == 1:
        return None if own == TOP else f"{room} imports the public names; import from their room"
    other = target[1]
    level = LEVEL.get(other, DOORS.get(other))
    if level is None:
        return f"{other} has no place in the house; give it one in LEVELS"
    if other == room:
        return problem_in_core(parts, target, imported) if room == "core" else None
    if level < own or (room in DOORS and level == own):
        return None
    if other in DOORS and own == TOP:
        return None
    relation = "is above" if level > own else "is on the level of"
    return f"{room} imports {other}, which {relation} it"


GROUND = ("compiled", "degrees", "excerpts")
"""Parts of the core that all others may stand on."""


def problem_in_core(parts: tuple[str, ...], target: list[str], imported: Import) -> str | None:
    """Return why a part of the core may not import another."""
    part, other = parts[1], target[2] if len(target) > 2 else "__init__"
    if other == "engine" and part != "engine":
        return f"core.{part} imports the engine, which is made of all parts"
    if part in (*GROUND, "model", "language") and other != part:
        allowed = {
            **dict.fromkeys(GROUND, other == "__init__"),
            "model": other in GROUND or (other == "language" and imported.for_types),
            "language": other in GROUND
            or target[2:5] == ["model", "geometry", "geodesy"]
            or (other == "model" and imported.for_types),
        }
        if not allowed[part]:
            return f"core.{part} imports {'.'.join(target[1:])}, which may import it"
    return None


def imports(tree: ast.Module, module: tuple[str, ...], package: Path) -> Iterator[Import]:
    """Yield the modules that a file imports; a name that is a module counts as that module."""
    pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, for_types = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += ((child, True) for child in node.body)
            pending += ((child, for_types) for child in node.orelse)
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, for_types)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join((*module[: -node.level], *base.split("."))).rstrip(".")
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(full if is_module(full, package) else base, node.lineno, for_types)
        pending += ((child, for_types) for child in ast.iter_child_nodes(node))


def is_module(name: str, package: Path) -> bool:
    """Return whether a dotted name is one of our modules or rooms."""
    first, _, rest = name.partition(".")
    if first != "nearcast" or not rest:
        return False
    path = package.joinpath(*rest.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def impurities(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield calls by which code reaches the world, the clock or chance without an import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = ast.unparse(node.func)
            if called in IO_CALLS or ".".join(called.split(".")[-2:]) in CLOCK_CALLS:
                yield node.lineno, f"the core does no I/O and has no clock, but calls {called}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("np.random", "numpy.random"):
            yield node.lineno, "the core leaves nothing to chance, but uses numpy.random"


def not_public_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield what the package's own file holds beside public names."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.If):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.FunctionDef) and node.name in ROOT_FUNCTIONS:
            continue
        yield node.lineno, "nearcast/__init__.py holds the public names and nothing else"


def test_the_house_is_in_order() -> None:
    assert violations(PACKAGE) == []


VIOLATIONS = {
    "a lower level imports a higher": ("wire/codec.py", "from nearcast.broker import server"),
    "the core imports a room": ("core/engine.py", "import nearcast.store.log.log"),
    "rooms on one level": ("broker/server.py", "from nearcast.overlay.link import Link"),
    "a relative import": ("store/log.py", "from ..client import connect"),
    "from the package": ("store/log.py", "from nearcast import client"),
    "inside a function": ("store/log.py", "def f():\n    from nearcast.cli import main"),
    "for types only": (
        "store/log.py",
        "if TYPE_CHECKING:\n    from nearcast.broker import server",
    ),
    "the public names": ("broker/server.py", "import nearcast"),
    "a room nobody knows": ("attic/box.py", "import nearcast.core"),
    "from a room nobody knows": ("cli/box.py", "import nearcast.attic"),
    "the model imports the matcher": (
        "core/model/event.py",
        "from nearcast.core.matching import matcher",
    ),
    "the model imports the language": ("core/model/event.py", "import nearcast.core.language"),
    "the language imports areas": (
        "core/language/filter.py",
        "from nearcast.core.model import area",
    ),
    "a part imports the engine": ("core/routing/zone.py", "from nearcast.core import engine"),
    "the compiler imports a part": ("core/compiled.py", "from nearcast.core.model import geodesy"),
    "I/O in the core": ("core/model/event.py", "import os.path"),
    "the clock in the core": ("core/model/event.py", "from time import monotonic"),
    "today in the core": ("core/model/event.py", "import datetime\nx = datetime.datetime.now()"),
    "a file in the core": ("core/model/event.py", "x = open('x')"),
    "chance in the core": ("core/model/event.py", "import numpy as np\nx = np.random.rand()"),
    "code beside the public names": ("__init__.py", "def connect(): ..."),
}
FINE = {
    "the core for everyone": ("wire/codec.py", "from nearcast.core.model import area"),
    "two levels down": ("cli/up.py", "from nearcast.store.log.log import Log"),
    "its own parts": ("broker/server.py", "from . import sessions\nfrom .sessions import Session"),
    "types inside the core": (
        "core/model/event.py",
        "if TYPE_CHECKING:\n    from nearcast.core.language import Filter",
    ),
    "distances in the language": (
        "core/language/nearness.py",
        "from nearcast.core.model.geometry.geodesy import distance_m",
    ),
    "parts of the core above": ("core/matching/matcher.py", "import nearcast.core.language"),
    "names of addresses": ("core/model/names.py", "from urllib.parse import quote"),
    "I/O outside the core": ("store/log.py", "import os, sqlite3, time"),
    "the version for programs": ("cli/up.py", "import nearcast\nfrom nearcast import _warm_up"),
    "public names": (
        "__init__.py",
        '"""Doc."""\nfrom nearcast.client import connect\n__all__ = []',
    ),
}


def house(root: Path, file: str, text: str) -> Path:
    """Build a package of every room, with one file that imports something."""
    package = root / "nearcast"
    for room in (
        "core/model/geometry",
        "core/language",
        "core/matching",
        "core/routing",
        "attic",
        *LEVEL,
    ):
        (package / room).mkdir(parents=True, exist_ok=True)
    for module in ("__init__", "_warm_up", "core/engine", "core/model/area"):
        (package / f"{module}.py").touch()
    for module in ("core/matching/matcher", "broker/server", "broker/sessions"):
        (package / f"{module}.py").touch()
    (package / "core/model/geometry/geodesy.py").touch()
    (package / file).write_text(text)
    return package


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_found(name: str, tmp_path: Path) -> None:
    file, text = VIOLATIONS[name]
    found = violations(house(tmp_path, file, text))
    assert len(found) == 1
    assert found[0].startswith(f"{file}:")


@pytest.mark.parametrize("name", FINE)
def test_what_is_allowed_is_not(name: str, tmp_path: Path) -> None:
    assert violations(house(tmp_path, *FINE[name])) == []


# Spelled with classes of one letter, so that this file does not hold what it looks for.
FORBIDDEN = {
    "a package registry": re.compile(
        r"index[-_]url|find[-_]links|trusted[-_]host|p[y]pi\.|python[h]osted|registry\.[n]pm",
        re.IGNORECASE,
    ),
    "a home directory": re.compile(r"(?<![\w.$}])/(?:home|root|Users)/\w"),
    "a directory of one machine": re.compile(
        r"""(?:Path|open|read_\w+)\(["']/(?!usr/|etc/|dev/|proc/|tmp/)\w"""
    ),
}
UNTRACKED = frozenset(
    (".git", ".venv", ".cache", ".hypothesis", "__pycache__", "build", "dist", "site")
) | frozenset((".mypy_cache", ".ruff_cache", ".pytest_cache", "node_modules"))


def unclean(root: Path) -> list[str]:
    """Return the lines of text files that name a registry or a directory of one machine."""
    found = []
    for path in sorted(root.rglob("*")):
        if not path.is_file() or UNTRACKED.intersection(path.relative_to(root).parts):
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            for what, pattern in FORBIDDEN.items():
                if pattern.search(line) or str(ROOT) in line:
                    found.append(f"{path.relative_to(root)}:{number}: {what}: {line.strip()[:80]}")
    return found


def test_nothing_names_a_registry_or_a_machine() -> None:
    assert unclean(ROOT) == []


@pytest.mark.parametrize(
    "line",
    [
        "--extra-index" + "-url X",
        "see py" + "pi.org",
        "cd /" + "home/me/x",
        "Path(" + "'/data/x')",
        str(ROOT / "x"),
    ],
)
def test_a_line_that_does_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text(f"fine\n{line}\n")
    assert unclean(tmp_path)[0].startswith("file.txt:2:")
