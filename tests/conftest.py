"""How properties are checked: no deadlines, since a first call may compile a kernel.

Where CI is set, the same examples are tried every time, so that a change is judged by what it
changed; everywhere else they are new ones. What starts Spark is marked, to run beside the rest.
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses the Spark session; what starts one of its own says so itself."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
