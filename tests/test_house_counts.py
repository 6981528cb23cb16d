"""The script that counts how large the source is counts, and follows a PUBLISH to its write."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "house-counts"


def counted(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_source_is_counted_and_a_publish_is_followed() -> None:
    found = json.loads(counted("--json"))
    assert found["lines"] == sum(room["lines"] for room in found["rooms"].values())
    assert {"broker", "client", "core", "store", "wire"} <= set(found["rooms"])
    assert all(count > 12 for count in found["large_folders"].values())
    assert all(len(modules) > 1 for modules in found["classes_defined_twice"].values())
    for path in found["hops"].values():
        rooms = {module.split("/")[0] for module in path["path"]}
        assert {"broker", "core", "wire"} <= rooms <= {"broker", "core", "store", "wire"}
        assert path["functions"] == sum(map(len, path["path"].values()))
        assert path["modules"] == len(path["path"])
        assert path["functions"] > path["callers"] > 0
    assert all(found["subscription_containers"].values())


def test_a_place_without_the_source_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "name the root of the repository" in done.stderr
