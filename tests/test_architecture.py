"""The map for maintainers is true: it lists every folder, and what it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "nearcast"
MAP = (ROOT / "docs" / "architecture.md").read_text()
NAMED = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?|[a-z_]+/[a-z_/]+\.(?:py|md))`(?:: `(\w+)`)?")


def test_every_folder_of_the_package_is_on_the_map() -> None:
    rows = {name for name, _ in NAMED.findall(MAP)}
    folders = {
        f"{path.parent.relative_to(PACKAGE).as_posix()}/"
        for path in PACKAGE.rglob("*.py")
        if path.parent != PACKAGE
    }
    assert folders - rows == set()


def test_what_the_map_names_exists() -> None:
    found = NAMED.findall(MAP)
    assert len(found) > 60
    for name, function in found:
        path = next((base / name for base in (PACKAGE, ROOT) if (base / name).exists()), None)
        assert path is not None, name
        if function:
            assert re.search(rf"def {function}\(", path.read_text()), f"{name}: {function}"
