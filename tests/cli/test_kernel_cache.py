"""Where compiled kernels are kept when the package, or the home directory, is not ours to write."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast import _kernel_cache

PACKAGE = Path(_kernel_cache.__file__).parent
KERNEL = """
from nearcast.cli import _kernel_cache
print(_kernel_cache.choose())
from nearcast.core.model.geometry.geodesy import distance_m
print(round(distance_m(53.35, -6.26, 53.36, -6.26)))
"""


@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose directory for compiled code cannot be made, not even by root."""
    package = tmp_path / "package" / "nearcast"
    (package / "core").mkdir(parents=True)
    (package / "core" / "__pycache__").write_text("in the way")
    monkeypatch.setattr(_kernel_cache, "PACKAGE", package)
    # Empty, not deleted: what the test leaves there is then taken back.
    monkeypatch.setenv(_kernel_cache.VARIABLE, "")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    return tmp_path


def test_kernels_stay_beside_their_sources_where_these_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Empty, not deleted: what the test leaves there is then taken back.
    monkeypatch.setenv(_kernel_cache.VARIABLE, "")
    monkeypatch.setattr(_kernel_cache, "PACKAGE", tmp_path)
    assert _kernel_cache.choose() is None
    assert not os.environ.get(_kernel_cache.VARIABLE)


def test_a_directory_that_the_user_named_is_left_alone(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_kernel_cache.VARIABLE, "elsewhere")
    assert _kernel_cache.choose() is None
    assert os.environ[_kernel_cache.VARIABLE] == "elsewhere"


def test_else_they_go_to_the_users_cache(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(sealed / "cache"))
    assert _kernel_cache.choose() is None
    assert os.environ[_kernel_cache.VARIABLE] == str(sealed / "cache" / "nearcast" / "kernels")


def test_without_a_home_they_are_kept_for_a_while_in_private_and_it_is_said(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    told = _kernel_cache.choose()
    assert told is not None
    assert "set NUMBA_CACHE_DIR" in told
    chosen = Path(os.environ[_kernel_cache.VARIABLE])
    assert chosen.parent == sealed / "temporary"
    assert chosen.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("planted", ["open directory", "link"])
def test_what_somebody_else_could_write_is_not_run(
    sealed: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    target = sealed / "temporary" / f"nearcast-kernels-{os.getuid()}"
    if planted == "link":
        (sealed / "other").mkdir(mode=0o700)
        target.symlink_to(sealed / "other")
    else:
        target.mkdir()
        target.chmod(0o777)
    told = _kernel_cache.choose()
    assert told is not None
    assert "are not kept" in told
    assert not os.environ.get(_kernel_cache.VARIABLE)


def test_kernels_run_where_nothing_can_be_kept(tmp_path: Path) -> None:
    copy = tmp_path / "nearcast"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("core", "core/model/geometry"):
        (copy / folder / "__pycache__").write_text("in the way")
    kept = {name: value for name, value in os.environ.items() if name != _kernel_cache.VARIABLE}
    nowhere = {"XDG_CACHE_HOME": "/dev/null/cache", "HOME": "/dev/null", "TMPDIR": str(tmp_path)}
    (tmp_path / f"nearcast-kernels-{os.getuid()}").write_text("in the way")
    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env=kept | nowhere | {"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "are not kept" in done.stdout
    assert done.stdout.endswith("\n1113\n")
