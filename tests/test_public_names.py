"""Public names: each is listed once in the code, is there, and is on the page of the reference."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "nearcast"
PAGE = (ROOT / "docs" / "reference" / "python.md").read_text()
# Where each public package lists its names: `from x import y as y`.
LISTS = {
    "nearcast": PACKAGE / "__init__.pyi",
    "nearcast.pipeline": PACKAGE / "pipeline" / "__init__.pyi",
    "nearcast.testing": PACKAGE / "testing" / "__init__.py",
}


def listed(package: str) -> list[str]:
    imports = ast.parse(LISTS[package].read_text()).body
    names = [each.names for each in imports if isinstance(each, ast.ImportFrom)]
    return [name.asname for one in names for name in one if name.asname]


NAMES = [(package, name) for package in LISTS for name in listed(package)]


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_a_public_name_is_there(package: str, name: str) -> None:
    if package == "nearcast.pipeline":
        pytest.importorskip("pyspark", reason="PySpark is not installed")
    assert getattr(import_module(package), name) is not None


@pytest.mark.parametrize("package", LISTS)
def test_the_reference_has_every_public_name_and_no_other(package: str) -> None:
    section = PAGE.partition(f"\n## `{package}`\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    documented = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(documented) == sorted(listed(package))


@pytest.mark.parametrize("package", ["nearcast", "nearcast.pipeline"])
def test_only_public_names_are_there(package: str) -> None:
    module = import_module(package)
    assert dir(module) == sorted(listed(package))
    with pytest.raises(AttributeError, match="nothing"):
        getattr(module, "nothing")  # noqa: B009


def test_no_module_lists_its_names_a_second_time() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple):
                names = [ast.unparse(target) for target in node.targets]
                found += [path.relative_to(PACKAGE).as_posix()] * ("__all__" in names)
    assert found == []


def in_a_new_process(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout


def test_importing_the_package_loads_no_other_part_of_it() -> None:
    code = "import sys, nearcast; print(*(m for m in sys.modules if m.startswith('nearcast.')))"
    assert in_a_new_process(code) == "nearcast._lazy_names\n"


def test_connecting_loads_no_compiler_and_no_geometry_library() -> None:
    printed = in_a_new_process("import sys, nearcast; nearcast.connect; print(*sys.modules)")
    loaded = {name.partition(".")[0] for name in printed.split()}
    assert loaded.isdisjoint({"numba", "numpy", "picows", "pyarrow", "pyspark", "shapely"})


def test_spark_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, nearcast.pipeline; print('pyspark' in sys.modules)"
    assert in_a_new_process(code) == "False\n"
