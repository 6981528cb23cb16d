"""The demonstration on a broker that listens: a city of clients, and what a spectator sees of it.

On a terminal that is the view, elsewhere lines: how far the pipeline is, who comes from outside,
and who got what.
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
from nearcast.simulation.city_run import Happening

FRAMES_PER_S = 4
LINES_EVERY_S = 0.5


class Shown(Protocol):
    """What shows a scene until it is cancelled."""

    async def run(self) -> None:
        """Show it."""


async def show_city(url: str, scene: CityScene, shown: Shown, stopped: asyncio.Event) -> None:
    """Let a city live on a broker and show it until `stopped` is set.

    Raises an `ExceptionGroup` of `ClientError` if the broker does not let the city in.
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
    """Shows the view on a terminal, all of which it takes."""

    def __init__(self, view: CityView, console: Console, stopped: asyncio.Event) -> None:
        self._view = view
        self._console = console
        self._stopped = stopped

    async def run(self) -> None:
        """Draw until cancelled; then the terminal is as it was."""
        with contextlib.suppress(NotImplementedError, AttributeError):
            # A terminal that is closed takes the city with it.
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
    """Prints a line for all that is new."""

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
        """Print until cancelled, or until nobody can read it any more."""
        try:
            while True:
                for line in self.news():
                    # In a thread, so that the broker goes on while nobody reads this.
                    await asyncio.to_thread(typer.echo, line)
                await asyncio.sleep(LINES_EVERY_S)
        except BrokenPipeError:
            # What is still said goes nowhere, and is no error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self._stopped.set()

    def news(self) -> Iterator[str]:
        """Yield what is new since this was last asked for."""
        yield from self._of_pipeline()
        visitors = set(self._scene.visitors)
        for name in sorted(visitors - self._visitors):
            yield f"{plain(name)} came from outside."
        for name in sorted(self._visitors - visitors):
            yield f"{plain(name)} left."
        self._visitors = visitors
        # Once copies have come to all who get one.
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
