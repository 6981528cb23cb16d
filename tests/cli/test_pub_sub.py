"""`nearcast pub` and `nearcast sub` against a real broker process."""

import base64
import json
import os
import queue
import re
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner, Result

from nearcast.cli import app
from tests.cli.programs import NEARCAST, WAIT_S, Subscriber, broker
from tests.support.broker_process import BrokerProcess


def pub(port: int, *arguments: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(app, ["pub", "--port", str(port), *arguments], input=given)


def sub(port: int, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["sub", "--port", str(port), *arguments])


def test_what_was_published_is_printed_with_all_that_came_with_it(port: int) -> None:
    done = pub(
        port, "one/a", "héllo", "--qos", "1", "--retain",
        "--property", "k=1", "--property", "a=b=c", "--property", "k=2", "--expiry", "1000",
    )  # fmt: skip
    assert done.exit_code == 0
    assert re.fullmatch(r"[0-9a-f]{20}\n", done.output)
    shown = sub(port, "one/#", "--count", "1", "--json", "--qos", "2")
    assert shown.exit_code == 0, shown.stderr
    message = json.loads(shown.stdout)
    expiry = message["properties"].pop("message_expiry_interval")
    assert 0 < expiry <= 1000
    assert message == {
        "topic": "one/a",
        "payload": "héllo",
        "qos": 1,
        "retain": True,
        "properties": {"user_properties": [["k", "1"], ["a", "b=c"], ["k", "2"]]},
    }
    assert sub(port, "one/#", "--count", "1").stdout == "one/a héllo\n"


def test_bytes_that_are_no_text_are_shown_as_base64(port: int, tmp_path: Path) -> None:
    raw = bytes(range(256))
    (tmp_path / "raw").write_bytes(raw)
    assert pub(port, "raw", "--file", str(tmp_path / "raw"), "--retain").exit_code == 0
    message = json.loads(sub(port, "raw", "--count", "1", "--json").stdout)
    assert base64.b64decode(message["base64"]) == raw
    assert "payload" not in message
    text = sub(port, "raw", "--count", "1").stdout
    assert text == f"raw base64:{base64.b64encode(raw).decode()}\n"


def test_a_message_cannot_write_over_the_terminal(port: int) -> None:
    assert pub(port, "tty", "--file", "-", "--retain", given=b"a\x1b[2Jb\tc").exit_code == 0
    assert sub(port, "tty", "--count", "1").stdout == "tty a\\x1b[2Jb\tc\n"


@pytest.mark.parametrize("mqtt", ["3", "4", "5"])
def test_lines_are_published_as_they_come_and_printed_as_they_arrive(port: int, mqtt: str) -> None:
    version = ("--mqtt", mqtt, "--qos", "2")
    reader = Subscriber(port, f"lines/{mqtt}/#", "--no-retained", *version)
    with subprocess.Popen(
        [*NEARCAST, *("pub", f"lines/{mqtt}/a", "--lines"), *("--port", str(port)), *version],
        stdin=subprocess.PIPE,
    ) as writer:
        assert writer.stdin is not None
        # The subscription may begin after the first lines; only what follows must all come.
        number = 0
        first = None
        while first is None:
            number += 1
            assert number < 10 * WAIT_S
            writer.stdin.write(b"%d\n" % number)
            writer.stdin.flush()
            try:
                first = int(reader._lines.get(timeout=0.2).split()[1])
            except queue.Empty:
                continue
        for following in range(number + 1, number + 4):
            writer.stdin.write(b"%d\r\n" % following)
        writer.stdin.write(b"last")
        writer.stdin.close()
        expected = [*map(str, range(first + 1, number + 4)), "last"]
        assert [reader.line().decode().split()[1] for _ in expected] == expected
        assert writer.wait(WAIT_S) == 0
    assert reader.end(signal.SIGINT) == 0


def test_a_subscription_outlives_the_command_that_made_it(port: int) -> None:
    kept = ("kept/#", "--qos", "1", "--id", "keeper", "--session-expiry", "600")
    first = Subscriber(port, *kept)
    # It has subscribed once something comes.
    while True:
        pub(port, "kept/a", "begin", "--qos", "1")
        try:
            assert first._lines.get(timeout=1.0) == b"kept/a begin\n"
        except queue.Empty:
            continue
        break
    assert first.end(signal.SIGTERM) == 0
    assert pub(port, "kept/a", "meanwhile", "--qos", "1", "--repeat", "2").exit_code == 0
    lines = sub(port, *kept, "--count", "2").stdout.splitlines()
    assert lines[-1] == "kept/a meanwhile"


def test_retained_messages_can_be_left_out(port: int) -> None:
    assert pub(port, "left/a", "old", "--qos", "1", "--retain").exit_code == 0
    for mqtt in ("4", "5"):
        reader = Subscriber(port, "left/#", "--no-retained", "--mqtt", mqtt, "--count", "1")
        while reader.process.poll() is None:
            pub(port, "left/b", "new", "--qos", "1")
        assert reader.line() == b"left/b new"
        assert reader.end(signal.SIGINT) == 0


def test_stopping_before_enough_has_come_is_told_by_the_exit_code(port: int) -> None:
    reader = Subscriber(port, "enough", "--count", "2")
    while True:
        pub(port, "enough", "x", "--qos", "1")
        try:
            reader._lines.get(timeout=1.0)
        except queue.Empty:
            continue
        break
    assert reader.end(signal.SIGINT) == 130


def test_a_pipe_that_closes_ends_it_quietly(port: int) -> None:
    pub(port, "pipe/a", "1", "--retain", "--qos", "1")
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(
        [*NEARCAST, "sub", "--port", str(port), "pipe/a"], stdout=write, stderr=subprocess.PIPE
    ) as reader:
        os.close(write)
        assert reader.communicate(timeout=WAIT_S)[1] == b""
        assert reader.returncode == 0


def test_the_brokers_reason_is_told_and_is_exit_code_1(port: int) -> None:
    refused = pub(port, "a", "x", "--id", "here")
    assert refused.exit_code == 1
    assert "Client identifier not valid (0x85)" in refused.stderr
    large = pub(port, "a", "--file", "-", given=b"x" * (2 << 20))
    assert large.exit_code == 1
    assert "Packet too large" in large.stderr


def test_a_name_and_a_password_open_the_door(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text("a long enough secret\nand more")
    wrong.write_text("no")
    users = tmp_path / "users.toml"
    add = ["user", "add", "bob", "--users", str(users), "--password-file", str(right)]
    added = CliRunner().invoke(app, add)
    assert added.exit_code == 0, added.output
    config = tmp_path / "closed.toml"
    config.write_text(f'[doors]\nanonymous = "nowhere"\nusers = "{users}"\n')
    with broker(tmp_path, "--config", str(config)) as port:
        bob = ("a", "x", "--qos", "1", "--id", "bob", "--user", "bob", "--password-file")
        assert pub(port, *bob, str(right)).exit_code == 0
        # Without an id the command is a part of the user's node.
        for verb in ("pub", "sub", "context", "place"):
            url = f"mqtt://bob:{quote('a long enough secret')}@127.0.0.1:{port}"
            rest = {"pub": ("a", "x", "--qos", "1"), "place": ("list",), "context": ("bob",)}
            asked = [verb, *rest.get(verb, ("$node/bob/online", "--count", "1"))]
            for who in (["--user", "bob", "--password-file", str(right)], ["--url", url]):
                there = [] if "--url" in who else ["--port", str(port)]
                done = CliRunner().invoke(app, [*asked, *who, *there])
                assert done.exit_code == 0, done.output
        for refused in (pub(port, *bob, str(wrong)), pub(port, "a", "x")):
            assert refused.exit_code == 1
            assert "(0x8" in refused.stderr


def test_a_broker_that_is_not_there_is_exit_code_1() -> None:
    for done in (pub(1, "a", "x"), sub(1, "a")):
        assert done.exit_code == 1
        assert "mqtt://127.0.0.1:1: Connection refused" in done.stderr


MISTAKES = {
    "a wildcard in a topic": ("pub", "a/#", "x"),
    "nothing to publish": ("pub", "a"),
    "two things to publish": ("pub", "a", "x", "--lines"),
    "a file that is not there": ("pub", "a", "--file", "no/such/file"),
    "a property without a value": ("pub", "a", "x", "--property", "k"),
    "properties in MQTT 3": ("pub", "a", "x", "--property", "k=v", "--mqtt", "4"),
    "a URL and a host": ("pub", "a", "x", "--url", "mqtt://h", "--host", "h"),
    "a URL that is none": ("sub", "a", "--url", "http://h"),
    "a session of nobody": ("sub", "a", "--session-expiry", "10"),
    "a place beyond the pole": ("pub", "a", "x", "--at", "91,0"),
    "the same in MQTT 3": ("pub", "a", "x", "--at", "91,0", "--mqtt", "4"),
    "the same without an acknowledgement": ("pub", "a", "x", "--at", "91,0", "--qos", "0"),
    "a node beyond the pole": ("context", "ann", "--at", "100,0"),
    "an area that is none": ("pub", "a", "x", "--to", "circle:me"),
    "for no time that there is": ("pub", "a", "x", "--valid", "nan"),
    "a time that is none": ("pub", "a", "x", "--time", "yesterday"),
    "an id that is too long": ("pub", "a", "x", "--event-id", "x" * 201),
    "a property of ours that is none": ("pub", "a", "x", "--property", "nc-speed=5"),
    "a filter that is none": ("sub", "a", "--where", "speed >"),
    "a filter that is none, by name": ("sub", "a", "--where", "speed >", "--name", "n"),
    "from an area that is none": ("sub", "a", "--from", "bbox:1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_meant_is_exit_code_2_and_one_message(mistake: str, port: int) -> None:
    verb, *arguments = MISTAKES[mistake]
    if "--url" not in arguments:
        arguments += ["--port", str(port)]
    done = CliRunner().invoke(app, [verb, *arguments])
    assert done.exit_code == 2, done.output
    assert done.stderr


def test_a_filter_that_is_none_is_told_without_a_traceback(port: int) -> None:
    done = subprocess.run(
        [*NEARCAST, "sub", "a/#/b", "--port", str(port)],
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (2, False)
    assert b"a/#/b" in done.stderr


@pytest.mark.parametrize("verb", ["pub", "sub"])
def test_a_port_that_speaks_http_is_named_in_one_line(tmp_path: Path, verb: str) -> None:
    running = BrokerProcess(tmp_path / "data", {"listen.http_port": 0}).wait_until_it_listens()
    try:
        message = ("x",) if verb == "pub" else ()
        command = [verb, "a", *message, "--port", str(running.ports["http"])]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 1
        (line,) = done.output.splitlines()
        assert "this port speaks HTTP" in line
    finally:
        running.stop()


def test_the_id_that_is_printed_is_that_of_the_event(port: int) -> None:
    first = pub(port, "ids/a", "1", "--retain").output.strip()
    second = json.loads(pub(port, "ids/b", "2", "--retain", "--json").output)
    assert second["subject"] == "ids/b"
    shown = sub(port, "ids/#", "--count", "2", "--json", "--meta")
    got = {
        message["topic"]: dict(message["properties"]["user_properties"])["nc-id"]
        for message in map(json.loads, shown.stdout.splitlines())
    }
    assert got == {"ids/a": first, "ids/b": second["id"]}


@pytest.mark.parametrize(
    "arguments",
    [
        ("ids/c", "1", "--quiet"),
        ("ids/c", "1", "--repeat", "2"),
        ("ids/c", "1", "--mqtt", "4"),
        ("$me/position", "53.35,-6.26"),
    ],
)
def test_nothing_is_printed_where_there_is_no_one_id(port: int, arguments: tuple[str, ...]) -> None:
    done = pub(port, *arguments)
    assert (done.exit_code, done.output) == (0, "")
