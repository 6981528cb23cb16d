"""Every example runs by itself and prints what its docstring says."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def promised(path: Path) -> str:
    """Return what the docstring of an example says that it prints."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    said = docstring.partition("Prints:\n")[2].strip("\n")
    # Four spaces, and no more: a line may begin with spaces of its own.
    return "".join(f"{line[4:]}\n" for line in said.splitlines())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_prints_what_it_says(path: Path) -> None:
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert promised(path)
    assert ran.stdout == promised(path)


def test_there_are_examples() -> None:
    assert EXAMPLES


def test_the_list_of_examples_links_each_of_them() -> None:
    page = (EXAMPLES[0].parent / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES if f"]({path.name})" not in page] == []
