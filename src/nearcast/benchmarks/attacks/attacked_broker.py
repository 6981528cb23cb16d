"""The brokers under attack: started with the settings that they come with, watched, and stopped.

They may use all cores, as they would without a benchmark; clients have the last one.
"""

import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from nearcast.benchmarks.broker.peers import MOSQUITTO, OURS, Running, start_mosquitto
from nearcast.benchmarks.load.process_figures import cpu_s, resident_bytes, wait_until_quiet

STOP_WITHIN_S = 60.0
QUIET_SHARE = 0.3
"""The honest client keeps a broker a little busy."""
SETTLE_S = 1.3
"""Until the log is written."""
DROPPED = "nearcast_hub_dropped_total"
_HTTP = re.compile(r"http://127\.0\.0\.1:(\d+)/")
_DEFAULTS_OF_MOSQUITTO = "sys_interval 10\n"


class AttackedBroker:
    """A broker that runs until it is stopped; `configuration` is more than ours comes with."""

    def __init__(self, name: str, directory: Path, configuration: str = "") -> None:
        self.name = name
        self.data = directory / "data"
        cores = os.sched_getaffinity(0)
        if name == MOSQUITTO:
            self._running = start_mosquitto(directory, _DEFAULTS_OF_MOSQUITTO, cores)
        else:
            assert name == OURS
            ports = [f"--{kind}-port=0" for kind in ("mqtt", "ws", "http")]
            file = directory / "nearcast.toml"
            file.write_text(configuration)
            command = [sys.executable, "-m", "nearcast", "up", "--no-pipeline", *ports]
            command += [f"--config={file}", f"--data={self.data}"]
            self._running = Running(command, directory, None, cores)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._running.pid

    @property
    def port(self) -> int:
        """Where it listens for MQTT."""
        return self._running.port

    @property
    def http_port(self) -> int:
        """Where it listens for HTTP; 0 if it does not."""
        found = _HTTP.search(self.said)
        return int(found[1]) if found else 0

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self._running.alive

    @property
    def said(self) -> str:
        """All that it has written to its output."""
        return self._running.said

    @property
    def resident_bytes(self) -> int:
        """Its memory, once it is nearly idle."""
        wait_until_quiet(self.pid, SETTLE_S, QUIET_SHARE)
        return resident_bytes(self.pid)

    @property
    def cpu_s(self) -> float:
        """CPU seconds used so far."""
        return cpu_s(self.pid)

    @property
    def dropped(self) -> int:
        """Messages dropped because a queue was full; 0 if it does not say."""
        if not self.http_port:
            return 0
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{DROPPED} "):
                    return int(float(line.split()[1]))
        return 0

    def stop(self) -> float | None:
        """Stop it by SIGTERM; return how many seconds that took, or None if it had to be killed."""
        process = self._running.process
        began = time.monotonic()
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None
        return time.monotonic() - began

    def close(self) -> None:
        """Make sure that it is gone."""
        if self._running.alive:
            self._running.process.kill()
            self._running.process.wait()
