"""The compared brokers: how each is started, and what its acknowledgement guarantees.

Nearcast is measured twice: with the benchmark's messages excluded from the event log, which
corresponds to mosquitto, and with every message recorded in the log.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.load.mqtt_frames import TOPICS
from nearcast.benchmarks.matching.peers.server_process import stop, wait_until
from nearcast.benchmarks.this_machine import cores_apart

OURS, RECORDED, MOSQUITTO = "nearcast", "nearcast-recorded", "mosquitto"
FLOOR = "floor"
"""Not a broker: reads a message, commits it with one sync, acknowledges it."""
_OUR_PROMISE = "on disk for all that keep it: sessions and the log"
_LISTENING = re.compile(r"MQTT on \S*:(\d+)")
_SYSTEM_PROGRAMS = "/usr/local/sbin:/usr/sbin:/sbin:/opt/homebrew/sbin"


class PeerBroker(NamedTuple):
    """A broker that can be started."""

    describe: str
    promise: str
    """Where a QoS 1 message is stored when its PUBACK is sent."""
    missing: Callable[[], str | None]
    version: Callable[[], str]
    start: Callable[[Path], "Running"]
    """Start the broker with its files in the given directory."""
    records: bool = False


class Running:
    """A running broker; `close` stops it."""

    def __init__(
        self,
        command: list[str],
        directory: Path,
        port: int | None,
        cores: set[int] | None = None,
    ) -> None:
        self._said = directory / "output.txt"
        with self._said.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        self.pid = self.process.pid
        os.sched_setaffinity(self.pid, cores or cores_apart()[0])
        self._port = port
        try:
            wait_until(self._is_ready, self.process)
        except BaseException as error:
            self.close()
            if isinstance(error, BenchmarkError):
                raise BenchmarkError(f"{error}; it said: {self._tail()}") from None
            raise

    @property
    def port(self) -> int:
        """The port on which the broker listens."""
        assert self._port is not None
        return self._port

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self.process.poll() is None

    @property
    def said(self) -> str:
        """All that it has written to its output."""
        return self._said.read_text(errors="replace")

    def close(self) -> None:
        """Stop the broker."""
        stop(self.process)

    def _is_ready(self) -> bool:
        if self._port is None:
            found = _LISTENING.search(self.said)
            if found is None:
                return False
            self._port = int(found[1])
        try:
            socket.create_connection(("127.0.0.1", self._port), 1.0).close()
        except OSError:
            return False
        return True

    def _tail(self) -> str:
        return self.said.strip()[-2_000:] or "nothing"


def _start_ours(directory: Path, exclude: tuple[str, ...]) -> Running:
    """Start `nearcast up`; the only place that builds its command line for this benchmark."""
    config = directory / "nearcast.toml"
    config.write_text(
        "[listen]\nmqtt_port = 0\nws_port = -1\nhttp_port = -1\n"
        "[limits]\nconnections = 20000\nconnects_per_s = 1e6\n"
        "[logging]\nlevel = 'warning'\n"
        f"[record]\nexclude = {list(exclude)}\n"
    )
    options = ["--config", str(config), "--data", str(directory / "data")]
    return Running(
        [sys.executable, "-m", "nearcast", "up", "--no-pipeline", *options], directory, None
    )


def start_floor(directory: Path) -> Running:
    """Start the commit floor (see `commit_floor`)."""
    module = "nearcast.benchmarks.broker.commit_floor"
    return Running([sys.executable, "-m", module, str(directory)], directory, None)


def _our_version() -> str:
    return metadata.version("nearcast")


def start_mosquitto(directory: Path, settings: str, cores: set[int] | None = None) -> Running:
    """Start mosquitto without persistence, with more lines of its configuration."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = directory / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
        f"log_type error\nlog_dest stdout\n{settings}"
    )
    return Running([_mosquitto() or "mosquitto", "-c", str(config)], directory, port, cores)


def _start_mosquitto(directory: Path) -> Running:
    return start_mosquitto(
        directory,
        "max_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay true\nsys_interval 0\n",
    )


def _mosquitto() -> str | None:
    return shutil.which("mosquitto") or shutil.which("mosquitto", path=_SYSTEM_PROGRAMS)


def _mosquitto_version() -> str:
    command = [_mosquitto() or "mosquitto", "-h"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"mosquitto version (\S+)", said)
    return found[1] if found else "unknown"


BROKERS = {
    OURS: PeerBroker(
        "messages kept out of its event log",
        f"{_OUR_PROMISE}; here neither does",
        lambda: None,
        _our_version,
        lambda directory: _start_ours(directory, (f"{TOPICS}/#",)),
    ),
    RECORDED: PeerBroker(
        "messages recorded in its event log as well",
        f"{_OUR_PROMISE}; here the log",
        lambda: None,
        _our_version,
        lambda directory: _start_ours(directory, ()),
        records=True,
    ),
    MOSQUITTO: PeerBroker(
        "without persistence and without limits",
        "in memory; lost if the broker or the machine stops",
        lambda: None if _mosquitto() else "mosquitto (Debian: apt-get install mosquitto)",
        _mosquitto_version,
        _start_mosquitto,
    ),
}
