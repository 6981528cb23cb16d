"""The set-up on machines that lack something: one line of advice, or it works."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env=kept | environment,
    )


def test_where_the_environment_cannot_be_made_it_is_said_where_it_could_be() -> None:
    done = make("installed", "VENV=/dev/null/venv")
    assert done.returncode == 2
    advice, error = done.stderr.splitlines()
    assert "make VENV=DIRECTORY installed" in advice
    assert error.startswith("make: ***")


def test_without_a_python_it_is_said_which_to_install(tmp_path: Path) -> None:
    for program in ("make", "sh", "mkdir"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    done = make("installed", f"VENV={tmp_path / 'venv'}", PATH=str(tmp_path))
    assert done.returncode == 2
    assert "Nearcast needs Python 3.11 or newer" in done.stderr


def test_without_the_right_to_install_packages_each_is_one_line(tmp_path: Path) -> None:
    """Neither mosquitto nor Java, and somebody who may not install them."""
    for program in ("sh", "sed", "mkdir"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    script = (ROOT / "scripts" / "system-packages").read_text()
    # Without the directories that are always looked into.
    here = script.replace("/usr/local/sbin:/usr/sbin:/sbin", str(tmp_path)).replace("/usr/lib", "")
    done = subprocess.run(
        [str(shutil.which("sh")), "-c", here],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": str(tmp_path)},
    )
    assert done.returncode == 0
    first, second = done.stdout.splitlines()
    assert first.startswith("For all benchmarks and tests install mosquitto mosquitto-clients")
    assert second.startswith("For the pipeline install Java 17 or 21")


def test_source_packages_are_built_with_pinned_tools_and_empty_caches() -> None:
    pins = (ROOT / "constraints.txt").read_text()
    assert "setuptools==" in pins
    assert "wheel==" in pins
    shown = make("--dry-run", "--always-make", "installed").stdout
    assert "PIP_BUILD_CONSTRAINT=constraints.txt" in shown
    assert "--no-build-isolation" not in shown
    assert "PIP_NO_CACHE_DIR=1" in (ROOT / ".ci" / "run").read_text()
