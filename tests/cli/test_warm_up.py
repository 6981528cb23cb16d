"""The warm-up: machine code is dropped when any source it depends on changed, and only then."""

import ast
from pathlib import Path

import pytest

from nearcast import _warm_up


@pytest.fixture
def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one kernel, which uses a constant of another module."""
    core = tmp_path / "nearcast" / "core"
    core.mkdir(parents=True)
    (core / "compiled.py").touch()
    (core / "kernel.py").write_text(
        "from nearcast.core.compiled import compiled\n"
        "from nearcast.core.constant import X\n"
        "if TYPE_CHECKING:\n    from nearcast.core.other import Y\n"
    )
    (core / "constant.py").write_text("from nearcast.core import deeper\n")
    (core / "deeper.py").write_text("X = 1\n")
    (core / "other.py").write_text("from nearcast.core.kernel import X\n")
    monkeypatch.setattr(_warm_up, "PACKAGE", core.parent)
    return core


@pytest.mark.parametrize("name", ["compiled", "kernel", "constant", "deeper"])
def test_a_changed_kernel_or_dependency_makes_the_cache_stale(core: Path, name: str) -> None:
    before = _warm_up.fingerprint()
    assert _warm_up.fingerprint() == before
    (core / f"{name}.py").write_text("CHANGED = 1\nfrom nearcast.core.compiled import compiled\n")
    assert _warm_up.fingerprint() != before


def test_a_file_that_no_kernel_uses_does_not(core: Path) -> None:
    before = _warm_up.fingerprint()
    (core / "other.py").write_text("CHANGED = 1\n")
    assert _warm_up.fingerprint() == before


def test_what_was_compiled_before_a_change_is_dropped(
    core: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(_warm_up, "use_everything", lambda: None)
    assert not _warm_up.is_warm()
    _warm_up.warm_up()
    assert _warm_up.is_warm()
    stale = core / "__pycache__" / "kernel.f-1.py311.nbi"
    stale.touch()
    _warm_up.main()
    assert stale.exists()
    (core / "deeper.py").write_text("X = 2\n")
    assert not _warm_up.is_warm()
    _warm_up.main()
    assert not stale.exists()
    assert _warm_up.is_warm()


def test_every_kernel_is_compiled_at_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    if not _warm_up.is_warm():
        pytest.skip("kernels changed since set-up")
    cold = [
        f"{path.stem}.{node.name}"
        for path in _warm_up.kernel_sources()
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(decorator) == "compiled" for decorator in node.decorator_list)
        and not list(path.parent.glob(f"__pycache__/{path.stem}.{node.name}-*.nbi"))
    ]
    assert cold == []
