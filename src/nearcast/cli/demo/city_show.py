"""The demonstration on a running broker: a city of clients, and its presentation.

On a terminal that is the view, elsewhere lines: the progress of the pipeline, visitors from
outside, and deliveries.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Protocol

import typer
from rich.console import Console
from rich.live import Live

from nearcast.cli.demo.city_drawing import plain
from nearcast.cli.demo.city_observer import observe
from nearcast.cli.demo.city_scene import TOGETHER_S, CityScene
from nearcast.cli.demo.city_view import CityView, happening_line
from nearcast.cli.demo.pipeline_steps import PipelineProgress
from nearcast.cli.demo.residents import Residents
from nearcast.simulation.movement.city_run import Happening

FRAMES_PER_S = 4
LINES_EVERY_S = 0.5


class Shown(Protocol):
    """Presents a scene until it is cancelled."""

    async def run(self) -> None:
        """Present the scene."""


async def show_city(url: str, scene: CityScene, shown: Shown, stopped: asyncio.Event) -> None:
    """Run a city on a broker and present it until `stopped` is set.

    Raises an `ExceptionGroup` of `ClientError` if the broker refuses the city's clients.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(shown.run()),
            group.create_task(observe(url, scene)),
            group.create_task(Residents(url, scene).live()),
        ]
        await stopped.wait()
        for task in tasks:
            task.cancel()


class CityOnScreen:
    """Draws the view on a terminal, full screen."""

    def __init__(self, view: CityView, console: Console, stopped: asyncio.Event) -> None:
        self._view = view
        self._console = console
        self._stopped = stopped

    async def run(self) -> None:
        """Draw until cancelled; then the terminal is restored."""
        with contextlib.suppress(NotImplementedError, AttributeError):
            # The demonstration ends when its terminal is closed.
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, self._stopped.set)
        console = self._console
        plain_letters = console.options.ascii_only
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                size = (console.width, console.height)
                live.update(self._view.screen(*size, ascii_only=plain_letters), refresh=True)
                await asyncio.sleep(1.0 / FRAMES_PER_S)


class CityInLines:
    """Prints a line for everything new."""

    def __init__(
        self,
        scene: CityScene,
        progress: Callable[[], PipelineProgress | None],
        stopped: asyncio.Event,
    ) -> None:
        self._scene = scene
        self._progress = progress
        self._stopped = stopped
        self._step = ""
        self._visitors: set[str] = set()
        self._printed_s = -1

    async def run(self) -> None:
        """Print until cancelled, or until the output is closed."""
        try:
            while True:
                for line in self.news():
                    # In a thread, so that the broker continues if the output is not read.
                    await asyncio.to_thread(typer.echo, line)
                await asyncio.sleep(LINES_EVERY_S)
        except BrokenPipeError:
            # Further output is discarded, without an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self._stopped.set()

    def news(self) -> Iterator[str]:
        """Yield the lines that are new since the last call."""
        yield from self._of_pipeline()
        visitors = set(self._scene.visitors)
        for name in sorted(visitors - self._visitors):
            yield f"{plain(name)} came from outside."
        for name in sorted(self._visitors - visitors):
            yield f"{plain(name)} left."
        self._visitors = visitors
        # Wait until all copies have come.
        until = int(self._scene.time_s) - TOGETHER_S - 1
        new = [
            each
            for each in (*self._scene.happenings, *self._scene.found)
            if self._printed_s < each.time_s <= until
        ]
        self._printed_s = max(self._printed_s, until)
        for each in sorted(new, key=_time):
            yield happening_line(each).plain

    def _of_pipeline(self) -> Iterator[str]:
        found = self._progress()
        if found is None:
            return
        now = found.now
        step = "The pipeline on Spark runs." if now is None else f"The pipeline starts: {now}."
        if found.problem is not None:
            step = f"The pipeline: {found.problem}"
        if step != self._step:
            self._step = step
            yield step


def _time(happening: Happening) -> int:
    return happening.time_s
