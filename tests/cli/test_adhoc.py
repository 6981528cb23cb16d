import stat
import subprocess
import sys
from pathlib import Path

from nearcast.wire.beacons.group_key import read_key
from nearcast.wire.beacons.signatures import read_members, read_signing_key
from tests.support.multicast import LOOPBACK, require_multicast


def nearcast(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "nearcast", "adhoc", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "group.key"
    made = nearcast("key", file)
    assert made.returncode == 0
    assert read_key(file.read_text()).fingerprint.hex() in made.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = nearcast("key", file)
    assert again.returncode == 1
    assert "exists" in again.stderr


def test_signing_keys_are_made_once_and_their_lines_make_the_file_of_members(
    tmp_path: Path,
) -> None:
    made = [
        nearcast("sign", "ambulance-7", tmp_path / "a.key"),
        nearcast("sign", "gateway-1", tmp_path / "g.key", "--gateway"),
    ]
    members = read_members("".join(each.stdout for each in made))
    key = read_signing_key((tmp_path / "a.key").read_text())
    assert members["ambulance-7"].public == key.public
    assert [each.gateway for each in members.values()] == [False, True]
    assert stat.S_IMODE((tmp_path / "a.key").stat().st_mode) == 0o600
    again = nearcast("sign", "ambulance-7", tmp_path / "a.key")
    assert (again.returncode, "exists" in again.stderr) == (1, True)
    assert nearcast("sign", "a b", tmp_path / "b.key").returncode == 1


def test_one_listens_to_what_another_sends(tmp_path: Path) -> None:
    require_multicast()
    file, members = tmp_path / "group.key", tmp_path / "members"
    nearcast("key", file)
    lines = [nearcast("sign", each, tmp_path / each).stdout for each in ("listener", "sender")]
    members.write_text("".join(lines))
    common = (
        "--at", "53.35,-6.26", "--key", str(file), "--interface", LOOPBACK,
        "--members", str(members), "--pseudonym", "600",
    )  # fmt: skip
    command = [sys.executable, "-m", "nearcast", "adhoc"]
    listener = subprocess.Popen(
        [
            *command,
            "listen",
            "siren",
            *common,
            "--count",
            "1",
            "--sign",
            str(tmp_path / "listener"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    sender = subprocess.Popen(
        [*command, "send", "siren", *common, "--sign", str(tmp_path / "sender")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert sender.stdin is not None
        while listener.poll() is None:
            sender.stdin.write('{"lane": 2}\n')
            sender.stdin.flush()
            try:
                listener.wait(0.3)
            except subprocess.TimeoutExpired:
                continue
        assert listener.stdout is not None
        assert '"attributes":{"lane":2}' in listener.stdout.read()
    finally:
        for process in (sender, listener):
            process.kill()
            process.communicate()
