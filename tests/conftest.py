"""How properties are checked: no deadlines, since a first call may compile a kernel.

Where CI is set, the same examples are tried every time, so that a change is judged by what it
changed; everywhere else they are new ones.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile(
    "nearcast", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI"))
)
# Every index is checked in this run, which is slow; the same properties run in full without.
settings.register_profile("checked", parent=settings.get_profile("nearcast"), max_examples=20)
settings.load_profile("nearcast")

SPARK = ("pipeline", "chaos/test_pipeline_kill", "cli/test_pipeline", "cli/test_up_pipeline")
"""Tests that start Spark: one after another, or they take the machine from each other."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say what may run beside what, where tests run in several processes (pytest-xdist)."""
    for item in items:
        where = item.path.relative_to(item.config.rootpath / "tests").as_posix()
        group = "spark" if where.startswith(SPARK) else where
        item.add_marker(pytest.mark.xdist_group(group))
