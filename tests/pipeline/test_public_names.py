"""The names of the pipeline for programs of one's own."""

import subprocess
import sys

import pytest

from nearcast import pipeline


@pytest.mark.parametrize("name", pipeline.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(pipeline, name) is not None


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        getattr(pipeline, "nothing")  # noqa: B009


def test_spark_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, nearcast.pipeline; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
