"""What was compiled from an archive serves every application that brings the same archive."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.pipeline.jobs.spark_session import packed

MEASURES = """
import sys
sys.path.insert(0, sys.argv[1])
from nearcast.core.model.geometry import geodesy
assert geodesy.__file__.startswith(sys.argv[1])
assert 110_000 < geodesy.distance_m(0.0, 0.0, 1.0, 0.0) < 112_000
statistics = geodesy.distance_m.stats
print(sum(statistics.cache_hits.values()), sum(statistics.cache_misses.values()))
"""


def test_a_machine_compiles_the_kernels_of_an_archive_once(tmp_path: Path) -> None:
    archive = packed()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")
    }
    found = []
    for application in ("first", "second"):
        copy = tmp_path / application / "nearcast.zip"
        copy.parent.mkdir()
        shutil.copy(archive, copy)
        done = subprocess.run(
            [sys.executable, "-c", MEASURES, str(copy)], capture_output=True, text=True,
            env=environment | {"XDG_CACHE_HOME": str(tmp_path / "cache")}, timeout=120, check=True,
        )  # fmt: skip
        found.append(done.stdout.split())
    assert found == [["0", "1"], ["1", "0"]]
