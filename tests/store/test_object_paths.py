"""Paths in object stores behave as those on a disk, on a real S3 protocol server and on files."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="obstore is not installed")
pytest.importorskip("flask_cors", reason="the server of moto is not installed")

from nearcast.store import AnyPath, ObjectPath, StoreError, names_in, path_at
from nearcast.store.durable_files import write_whole
from nearcast.store.object_paths import append, folders_in, modified_at, read_from, version_of
from tests.support.object_store import BUCKET, s3_server

KINDS = ("directory", "file URL", "S3")
numbers = count()


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as found, pytest.MonkeyPatch.context() as patched:
        for name, value in found.items():
            patched.setenv(name, value)
        yield f"s3://{BUCKET}"


@pytest.fixture(params=KINDS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> AnyPath:
    """An empty place of each kind."""
    if request.param == "S3":
        return path_at(f"{request.getfixturevalue('s3')}/test-{next(numbers)}/")
    return path_at(tmp_path.as_uri() if request.param == "file URL" else str(tmp_path))


def write(path: AnyPath, data: bytes) -> None:
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)


def test_a_file_is_replaced_appended_to_and_deleted(root: AnyPath) -> None:
    path = root / "brokers" / "b" / "x.json"
    assert version_of(path) is None
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        path.read_bytes()
    write(path, b"one")
    first = version_of(path)
    write(path, b"two")
    assert version_of(path) not in (None, first)
    append(path, b" three")
    assert (path.read_bytes(), read_from(path, 4)) == (b"two three", b"three")
    assert modified_at(path) > 1.7e9
    append(path.parent / "new.json", b"first")
    assert (path.parent / "new.json").read_bytes() == b"first"
    assert names_in(root / "brokers" / "b") == ["new.json", "x.json"]
    assert (names_in(root), folders_in(root), folders_in(root / "none")) == ([], ["brokers"], [])
    path.unlink()
    path.unlink(missing_ok=True)
    assert names_in(path.parent) == ["new.json"]
    assert (root / "brokers").is_dir()
    assert not (root / "none").is_dir()
    assert names_in(root / "none") == []


def test_names_are_those_of_paths(root: AnyPath) -> None:
    path = root / "a" / "1.parquet"
    assert (path.name, path.stem, path.parent.name) == ("1.parquet", "1", "a")
    assert path.with_suffix(".player").name == "1.player"
    assert str(path).endswith("/a/1.parquet")
    assert path_at(path) == path


def test_a_store_that_cannot_be_reached_is_an_error_of_one_line(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    path = ObjectPath(f"{s3}/elsewhere", "x")
    with pytest.raises(StoreError, match=r"elsewhere/x: writing it failed") as error:
        write_whole(path, b"")
    assert "\n" not in str(error.value)
    with pytest.raises(StoreError, match="no location of an object store"):
        write_whole(ObjectPath("what://is/this"), b"")
