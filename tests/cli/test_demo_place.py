"""Where a demonstration runs: free ports, and data that is gone afterwards."""

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.cli.demo.demo_place import demo_place, program


@contextlib.contextmanager
def in_use(port: int) -> Iterator[None]:
    """Have a port in use, if nobody uses it already."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        yield


def test_ports_that_are_in_use_move_to_others_and_it_is_said(tmp_path: Path) -> None:
    with in_use(1883), in_use(8080), demo_place(None, {}, {}) as place:
        moved = {name: place.options[f"listen.{name}"] for name in ("mqtt_port", "http_port")}
        assert moved["mqtt_port"] not in (None, 1883)
        assert moved["http_port"] not in (None, 8080)
        assert f"Port 1883 is in use: MQTT is on {moved['mqtt_port']}." in place.notices
        assert f"Port 8080 is in use: HTTP is on {moved['http_port']}." in place.notices


def test_ports_that_somebody_asked_for_stay(tmp_path: Path) -> None:
    file = tmp_path / "nearcast.toml"
    file.write_text("[listen]\nhttp_port = 8080\n")
    environ, options = {"NEARCAST_LISTEN_WS_PORT": "8083"}, {"listen.mqtt_port": 1883}
    with in_use(1883), in_use(8080), in_use(8083), demo_place(file, environ, options) as place:
        assert set(place.options) == {"broker.data"}
        assert len(place.notices) == 1


def test_data_is_temporary_and_gone_afterwards_also_if_something_fails() -> None:
    with contextlib.suppress(ZeroDivisionError), demo_place(None, {}, {}) as place:
        data = Path(str(place.options["broker.data"]))
        assert Path(place.log.name) == data / "demo.log"
        assert f"Data in {data}, removed at the end; log in {data}/demo.log." in place.notices
        assert all(str(data) in value for value in place.variables.values())
        raise ZeroDivisionError
    assert not data.exists()


def test_data_that_somebody_asked_for_stays(tmp_path: Path) -> None:
    with demo_place(None, {}, {"broker.data": str(tmp_path / "mine")}) as place:
        assert "broker.data" not in place.options
        assert place.variables == {}
        place.log.write("a line\n")
    assert (tmp_path / "mine" / "demo.log").read_text() == "a line\n"


def test_the_program_is_called_by_its_name_where_that_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = Path(sys.executable).parent
    assert (directory / "nearcast").exists()
    monkeypatch.setenv("PATH", str(directory))
    assert program() == "nearcast"
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir("/")
    assert program() == str(directory / "nearcast").removeprefix("/")
