"""What a broker keeps is for its owner alone, whatever the umask, unless a group is named."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from nearcast.broker.auth.credentials.users_file import Account, changing_users
from nearcast.pipeline.tables.tables import EpochId, Tables
from nearcast.store import StoreError
from nearcast.store.file_access import FileAccess, file_access
from tests.support.logs.store_rows import AT_ONCE, BROKER, opened, write_segments


@pytest.fixture(params=[0o000, 0o022], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def another_group() -> int:
    """A group that files do not have anyway, if this user may give them to one."""
    if os.geteuid() == 0:
        return 12_345
    return next((each for each in os.getgroups() if each != os.getegid()), os.getegid())


def modes(data: Path) -> dict[str, int]:
    """The mode of everything below a directory."""
    return {
        str(path.relative_to(data)): stat.S_IMODE(path.stat().st_mode)
        for path in data.rglob("*")
        if not path.is_symlink()
    }


def everything(data: Path, access: FileAccess = FileAccess()) -> None:  # noqa: B008
    """Write all kinds of files that there are, and leave the write-ahead log open."""
    with changing_users(data / "users.toml") as accounts:
        accounts["ann"] = Account("ann")
    store = opened(data, AT_ONCE)
    write_segments(store, 3)
    store.log.merge(1, 2)
    write_segments(store, 1)
    store.commit([], now=1.0)
    assert (data / "brokers" / BROKER / "state.sqlite-wal").exists()
    assert not [mode for mode in modes(data / "brokers").values() if mode & 0o007]
    store.close()
    # Delta Lake creates files by the umask, which commands set: see `limit_access`.
    before = os.umask(access.umask)
    try:
        tables = Tables(data)
        tables.append("contexts", pa.table({"time": [1.0]}), EpochId("q", 0))
        tables.append("contexts", pa.table({"time": [2.0]}), EpochId("q", 1))
        tables.compact()
    finally:
        os.umask(before)


def test_only_the_owner_may_read_anything(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    everything(data)
    found = modes(tmp_path)

    files = {name for name in found if (tmp_path / name).is_file()}
    assert len(files) > 5
    assert {found[name] for name in files} == {0o600}
    assert {mode for name, mode in found.items() if name not in files} == {0o700}


def test_a_backup_is_private(tmp_path: Path) -> None:
    store = opened(tmp_path / "data", AT_ONCE)
    write_segments(store, 2)
    store.backup(tmp_path / "copy")
    store.close()

    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700
    found = modes(tmp_path / "copy")
    assert set(found.values()) == {0o600, 0o700}


def test_what_an_earlier_release_left_is_closed(tmp_path: Path) -> None:
    everything(tmp_path)
    for path in (tmp_path / "brokers").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    FileAccess().prepare(tmp_path)
    opened(tmp_path).close()
    found = modes(tmp_path)

    assert found["brokers"] == found[f"brokers/{BROKER}"] == found[f"brokers/{BROKER}/log"] == 0o700
    assert found[f"brokers/{BROKER}/state.sqlite"] == 0o600


@pytest.mark.parametrize("later", [False, True])
def test_a_group_may_read_segments_and_tables_and_nothing_else(tmp_path: Path, later: bool) -> None:
    access, data = FileAccess(another_group()), tmp_path / "data"
    if later:
        everything(data)
    access.prepare(data)
    everything(data, access)
    access.prepare(data)
    found = modes(data)

    log = f"brokers/{BROKER}/log"
    shared = {name for name in found if name.startswith((f"{log}/", "tables/"))}
    directories = {"tables", "brokers", f"brokers/{BROKER}", log}
    for name in shared | directories:
        path = data / name
        assert found[name] == (0o2750 if path.is_dir() else 0o640), name
        assert path.stat().st_gid == access.group
    assert stat.S_IMODE(data.stat().st_mode) == 0o2750
    assert found["checkpoints"] == 0o700
    private = set(found) - shared - directories - {"checkpoints"}
    assert {"users.toml", f"brokers/{BROKER}/state.sqlite"} <= private
    assert {found[name] for name in private} == {0o600}


def test_a_group_is_named_by_its_name_or_number() -> None:
    assert file_access("") == FileAccess()
    assert file_access("0") == FileAccess(0)
    assert file_access("root") == FileAccess(0)
    with pytest.raises(StoreError, match="there is no group 'nobody-here'"):
        file_access("nobody-here")
