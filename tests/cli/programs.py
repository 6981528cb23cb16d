"""`nearcast up` and `nearcast sub` as processes beside a test."""

import contextlib
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

WAIT_S = 60.0

NEARCAST = (sys.executable, "-m", "nearcast")


@contextlib.contextmanager
def broker(directory: Path, *options: str) -> Iterator[int]:
    """Run a broker process, and yield its port."""
    command = [*NEARCAST, "up", "--no-pipeline", "--mqtt-port", "0", "--ws-port", "-1"]
    command += ["--http-port", "-1"]
    with subprocess.Popen(
        [*command, "--data", str(directory / "data"), *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=directory,
    ) as running:
        try:
            assert running.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+)", running.stdout.readline())
            assert found is not None
            yield int(found[1])
        finally:
            running.terminate()
            running.communicate(timeout=WAIT_S)


class Subscriber:
    """A `nearcast sub` that runs while a test does; its lines can be waited for."""

    def __init__(self, port: int, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*NEARCAST, "sub", "--port", str(port), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def line(self) -> bytes:
        return self._lines.get(timeout=WAIT_S).rstrip(b"\n")

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(WAIT_S)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code
