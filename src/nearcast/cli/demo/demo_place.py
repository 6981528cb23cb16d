"""The environment of a demonstration: its own data and log, and free ports."""

import errno
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from msgspec import Struct

from nearcast.broker.config.configuration import effective
from nearcast.broker.config.settings import Settings

PORTS = {"mqtt_port": "MQTT", "ws_port": "WebSocket", "http_port": "HTTP"}
TRIED_PORTS = 20
LOG_NAME = "demo.log"
SCRATCH = "scratch"
LONGEST_PLACE = 40
"""Paths of sockets are limited to 103 bytes on some systems."""
REMOVE_TRIES, REMOVE_EVERY_S = 20, 0.1


class DemoPlace(Struct, frozen=True):
    """Settings that the user did not choose, a log file, and notices to print."""

    options: Mapping[str, object]
    log: TextIO
    notices: list[str]
    temporary: bool
    """Whether the data is removed at the end."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables of the pipeline, so that it leaves no files elsewhere."""
        if not self.temporary:
            return {}
        directory = Path(self.log.name).with_name(SCRATCH)
        directory.mkdir(exist_ok=True)
        java = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -Djava.io.tmpdir={directory}"
        return {
            "TMPDIR": str(directory),
            "SPARK_LOCAL_DIRS": str(directory),
            "JDK_JAVA_OPTIONS": java.strip(),
        }


@contextmanager
def demo_place(
    config: Path | None, environ: Mapping[str, str], options: Mapping[str, object]
) -> Iterator[DemoPlace]:
    """Provide the environment of a demonstration; temporary data is removed at the end."""
    found = effective(config, environ, options)
    chosen, notices = _free_ports(
        found.settings, {key: found.origins[key].kind for key in found.origins}
    )
    data = Path(found.settings.node.data)
    temporary = found.origins["broker.data"].kind == "default"
    if temporary:
        data = Path(tempfile.mkdtemp(prefix="nearcast-demo-", dir=_short_directory()))
        chosen["broker.data"] = str(data)
    log_path = data / LOG_NAME
    try:
        data.mkdir(parents=True, exist_ok=True)
        with open(log_path, "a", buffering=1, opener=_private) as log:
            where = f"Data in {data}" + (", removed at the end" if temporary else "")
            notices.append(f"{where}; log in {log_path}.")
            yield DemoPlace(chosen, log, notices, temporary)
    finally:
        if temporary:
            _remove(data)


def _remove(directory: Path) -> None:
    """Remove a directory; retry while a process that was just killed still writes."""
    for _ in range(REMOVE_TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(REMOVE_EVERY_S)


def _short_directory() -> str | None:
    """Return a directory for the data if the default path is too long for sockets in it."""
    return "/tmp" if len(tempfile.gettempdir()) > LONGEST_PLACE else None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _free_ports(
    settings: Settings, origins: Mapping[str, str]
) -> tuple[dict[str, object], list[str]]:
    """Return other ports for default ones that are in use, and notices about them."""
    chosen: dict[str, object] = {}
    notices: list[str] = []
    for name, protocol in PORTS.items():
        host = settings.listen.http_host if name == "http_port" else settings.listen.host
        wanted: int = getattr(settings.listen, name)
        if wanted <= 0 or origins[f"listen.{name}"] != "default" or not _in_use(host, wanted):
            continue
        others = range(wanted + 1, wanted + TRIED_PORTS)
        taken = set(chosen.values())
        free = (port for port in others if port not in taken and not _in_use(host, port))
        port = chosen[f"listen.{name}"] = next(free, 0)
        notices.append(f"Port {wanted} is in use: {protocol} is on {port or 'a free one'}.")
    return chosen, notices


def _in_use(host: str, port: int) -> bool:
    with suppress(OSError):
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((host, port))
            except OSError as error:
                return error.errno == errno.EADDRINUSE
    return False


def program() -> str:
    """Return the command that calls this program from the current directory."""
    beside = Path(sys.executable).with_name("nearcast")
    on_path = shutil.which("nearcast")
    if on_path is not None and Path(on_path).parent == beside.parent:
        return "nearcast"
    if beside.exists():
        with suppress(ValueError):
            return str(beside.relative_to(Path.cwd()))
        return str(beside)
    return f"{Path(sys.executable).name} -m nearcast"
