"""The names that `import nearcast` gives, and what loading them costs."""

import subprocess
import sys

import pytest

import nearcast as nc


@pytest.mark.parametrize("name", nc.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(nc, name) is not None


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        getattr(nc, "nothing")  # noqa: B009


def test_dir_lists_the_public_names_and_nothing_else() -> None:
    code = "import nearcast; print(dir(nearcast) == sorted(nearcast.__all__))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, nearcast; print([m for m in sys.modules if m.startswith('nearcast.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_connecting_loads_no_compiler_and_no_geometry_library() -> None:
    code = "import sys, nearcast; nearcast.connect; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({"numba", "numpy", "picows", "pyarrow", "pyspark", "shapely"})
