"""The commands of the tutorial, typed in order, with a real broker: terminals show what it says.

A `console` block whose command is `nearcast sub` is the terminal that listens, until the next one,
and what follows the command there is what it warns of. Other blocks are typed in another terminal.
A `text` block is what the listening terminal shows.
"""

import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from time import monotonic, sleep

import pytest

from nearcast.broker.server import Server
from tests.support.clients.raw_client import WAIT_S
from tests.support.documents import ROOT, Block, blocks
from tests.support.running_broker import RunningBroker

TUTORIAL = ROOT / "docs" / "tutorial.md"
WAITS_S = 12 * WAIT_S
# Ids of events, which are random, and numbers of inputs, which depend on what came before.
VARIES = re.compile(r"\b[0-9a-f]{20}\b|(?<=input )\d+")
TALKS_TO_A_BROKER = ("pub", "sub", "context", "nodes", "place")


def typed(block: Block) -> list[tuple[str, list[str]]]:
    """Return the commands of a block, each with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


class Listener:
    """A terminal in which `nearcast sub` runs."""

    def __init__(self, command: list[str], server: Server) -> None:
        before = subscriptions(server)
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        wait_until(lambda: subscriptions(server) > before)

    def shows(self, count: int) -> list[str]:
        return [self._lines.get(timeout=WAITS_S) for _ in range(count)]

    def warns(self, count: int) -> list[str]:
        assert self._process.stderr is not None
        return [self._process.stderr.readline().rstrip("\n") for _ in range(count)]

    def stop(self, server: Server) -> list[str]:
        """End it as Ctrl-C does, and return what it showed and nobody asked for."""
        before = subscriptions(server)
        self._process.send_signal(2)
        assert self._process.wait(WAITS_S) == 0
        self._reader.join(WAITS_S)
        assert self._process.stderr is not None
        with self._process.stderr as warnings:
            assert warnings.read() == ""
        wait_until(lambda: subscriptions(server) < before)
        return [self._lines.get() for _ in range(self._lines.qsize())]

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line.rstrip("\n"))


def subscriptions(server: Server) -> float:
    return server.statistics()["subscriptions"]


def wait_until(holds: Callable[[], bool]) -> None:
    limit = monotonic() + WAITS_S
    while not holds():
        assert monotonic() < limit
        sleep(0.02)


def test_the_commands_of_the_tutorial_show_what_it_says(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    program = [sys.executable, "-m", "nearcast"]
    listener: Listener | None = None
    surprises: list[str] = []
    checked = 0

    def full(command: str) -> list[str]:
        words = shlex.split(command)
        assert words[0] == "nearcast"
        there = ["--data", str(tmp_path)]
        if words[1] in TALKS_TO_A_BROKER:
            there = ["--port", str(broker.port)]
        return [*program, *words[1:], *there]

    try:
        for block in shell_part():
            if block.language == "text":
                assert listener is not None
                said = block.text.splitlines()
                assert listener.shows(len(said)) == said
                checked += 1
                continue
            for command, said in typed(block):
                if command.startswith("nearcast sub"):
                    if listener is not None:
                        surprises += listener.stop(broker.server)
                    listener = Listener(full(command), broker.server)
                    assert listener.warns(len(said)) == said
                    continue
                ran = subprocess.run(full(command), capture_output=True, text=True, check=False)
                assert ran.returncode == 0, ran.stderr
                assert same(ran.stdout.splitlines(), said), ran.stdout
    finally:
        if listener is not None:
            surprises += listener.stop(broker.server)
        broker.stop()
    assert surprises == []
    assert checked >= 6


def shell_part() -> list[Block]:
    """Return the blocks from where a broker runs until Python begins."""
    found = blocks(TUTORIAL.read_text(encoding="utf-8"))
    begin = next(index for index, block in enumerate(found) if "nearcast up" in block.text)
    end = next(index for index, block in enumerate(found) if "python -m asyncio" in block.text)
    return found[begin + 1 : end]


def same(got: list[str], said: list[str]) -> bool:
    """Whether the lines are those, but for what varies, or the page leaves ids out."""
    seen, told = ([VARIES.sub("…", line) for line in lines] for lines in (got, said))
    return seen == told or [line for line in seen if line != "…"] == told


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_a_page_for_newcomers_says_first_how_to_call_the_program(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    first_use = page.index("nearcast up")
    assert "source .venv/bin/activate" in page[:first_use]
    assert ".venv/bin/nearcast" in page[:first_use]
