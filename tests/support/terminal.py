"""A program in a terminal: what it draws, and Ctrl-C."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType

WITHIN_S = 120.0


class Terminal:
    """Runs a program in a pseudo-terminal of a size; killed if it takes too long."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        width: int = 80,
        height: int = 24,
        within_s: float = WITHIN_S,
    ) -> None:
        self._mine, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        variables = {**(os.environ if environment is None else environment), "TERM": "xterm"}
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={key: value for key, value in variables.items() if key not in ("COLUMNS", "LINES")},
            start_new_session=True,
            # Where the suite itself runs in the background, children would ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(theirs)
        self._watchdog = threading.Timer(within_s, self.process.kill)
        self._watchdog.start()
        self.written = b""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._watchdog.cancel()
        os.close(self._mine)

    def wait_for(self, *texts: str) -> None:
        """Return once all of some texts have been written since this was last called."""
        missing, new = set(texts), b""
        while missing:
            chunk = self._read()
            assert chunk, f"it ended without {missing}: {self.written.decode(errors='replace')}"
            self.written += chunk
            new += chunk
            missing = {text for text in missing if text.encode() not in new}

    def press_ctrl_c(self) -> None:
        """Interrupt the program."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Read all that is left, and return the exit code."""
        while chunk := self._read():
            self.written += chunk
        return self.process.wait()

    def _read(self) -> bytes:
        try:
            return os.read(self._mine, 65536)
        except OSError:
            # The other end is closed, which Linux reports as an error and others as an end.
            return b""
