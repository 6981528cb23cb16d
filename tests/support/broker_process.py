"""A broker in a process of its own, which can be killed, frozen out of its disk, and watched."""

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

START_WITHIN_S = 60.0
STOP_WITHIN_S = 60.0
_LISTENING = re.compile(r"Listening for (.+) on 127\.0\.0\.1:(\d+)\.")
_HTTP = re.compile(r"http://127\.0\.0\.1:(\d+)/")
_NAMES = {"MQTT": "mqtt", "MQTT over TLS": "mqtts", "WebSocket": "ws", "secure WebSocket": "wss"}


class BrokerEndedError(Exception):
    """The broker ended before it listened, with what it said."""


class BrokerProcess:
    """`nearcast up` on a data directory; `settings` are dotted names and their values."""

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, object] | None = None,
        *,
        port: int = 0,
        errors: Path | None = None,
        largest_file: int | None = None,
        open_files: int | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.data = data
        self.ports: dict[str, int] = {}
        self._errors = data.parent / f"{data.name}.stderr" if errors is None else errors
        chosen = {"listen.mqtt_port": port, "listen.ws_port": 0, "listen.http_port": -1}
        environment = dict(os.environ) | {
            "NEARCAST_" + name.replace(".", "_").upper(): str(value)
            for name, value in (chosen | dict(settings or {})).items()
        }
        with self._errors.open("ab") as stream:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "nearcast",
                    "up",
                    "--no-pipeline",
                    "--data",
                    str(data),
                    *options,
                ],
                stdout=subprocess.PIPE,
                stderr=stream,
                env=environment,
                preexec_fn=_limited(largest_file, open_files),
            )

    def wait_until_it_listens(self) -> "BrokerProcess":
        """Return once clients can connect, or raise `BrokerEndedError`."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(START_WITHIN_S, self.process.kill)
        watchdog.start()
        try:
            for line in iter(self.process.stdout.readline, b""):
                text = line.decode()
                if found := _LISTENING.match(text):
                    self.ports[_NAMES[found[1]]] = int(found[2])
                elif found := _HTTP.search(text):
                    self.ports["http"] = int(found[1])
                elif text.startswith("Ctrl-C"):
                    return self
        finally:
            watchdog.cancel()
        self.process.wait()
        self._close()
        raise BrokerEndedError(f"exit code {self.process.returncode}\n{self.said}")

    @property
    def port(self) -> int:
        """The port for MQTT on TCP."""
        return self.ports["mqtt"]

    @property
    def said(self) -> str:
        """All that it wrote to its standard error, over all its lives on this data directory."""
        return self._errors.read_text()

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    @property
    def memory_bytes(self) -> int:
        """How much memory it has now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (kibibytes,) = re.findall(r"VmRSS:\s+(\d+) kB", status)
        return int(kibibytes) * 1024

    def ask(self, path: str) -> str:
        """What its HTTP server says, whatever the status."""
        address = f"http://127.0.0.1:{self.ports['http']}{path}"
        try:
            with urllib.request.urlopen(address, timeout=START_WITHIN_S) as answer:
                return bytes(answer.read()).decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()

    def figure(self, name: str) -> float:
        """One of its metrics."""
        for line in self.ask("/metrics").splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        return 0.0

    def let_files_grow(self) -> None:
        """Lift the limit that `largest_file` set."""
        forever = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, forever)

    def kill(self) -> None:
        """SIGKILL: it cannot do anything more."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._close()

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._close()
        return code

    def end(self) -> None:
        """Make sure that it is gone, whatever state it is in."""
        if self.runs:
            self.kill()
        self._close()

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()


def _limited(largest_file: int | None, open_files: int | None) -> Callable[[], None]:
    def limit() -> None:
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
            # Python ignores the signal that would come: writing fails instead.
        if open_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))

    return limit
