"""A mosquitto process, and whether there is one."""

import contextlib
import getpass
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.waiting import WAIT_S, until

# Where Debian puts it, outside the path of a user.
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Mosquitto:
    """A mosquitto process on one port; stopped well it remembers, killed it forgets."""

    def __init__(self, directory: Path, *lines: str) -> None:
        self.port = free_port()
        directory.mkdir(parents=True, exist_ok=True)
        self._config = directory / "mosquitto.conf"
        # With its limit of 20, version 2.0.11 loses messages where QoS 1 and 2 are mixed.
        common = (
            f"listener {self.port} 127.0.0.1", "persistence true",
            f"persistence_location {directory}/", "max_inflight_messages 0",
            "max_queued_messages 0", f"user {getpass.getuser()}",
        )  # fmt: skip
        self._config.write_text("\n".join((*common, *(lines or ("allow_anonymous true",)))) + "\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        assert MOSQUITTO is not None
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self._config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def listens() -> bool:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return True
            return False

        try:
            until(listens, "mosquitto listens")
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        self._end(lambda process: process.terminate())

    def kill(self) -> None:
        self._end(lambda process: process.kill())

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        if self._process is not None:
            how(self._process)
            self._process.wait(WAIT_S)
            self._process = None
