"""``nearcast demo``: a small city in the terminal, with events and the nodes that get them.

The simulation makes the inputs, the engine decides, and this module draws: a map, deliveries with
priorities, and counts. If the output is not a terminal it prints a line for each event instead, as
fast as it can. The same seed shows the same city.
"""

import json
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.layout import Layout
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nearcast import _warm_up
from nearcast.cli.demo.city_drawing import (
    FADES_S,
    DrawnNode,
    Picture,
    clock,
    draw_map,
    legend,
    line,
)
from nearcast.core.model.geometry.area import Around, Circle, MovingCircle
from nearcast.simulation.movement.city_life import FEWEST_NODES, CityLife
from nearcast.simulation.movement.city_run import CityRun, Happening

FRAMES_PER_S = 8
UNWATCHED_S = 10
"""How long the city runs by default if the output is not a terminal."""
AVERAGED = 50
SIDE_WIDTH = 29


def demo(
    *,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Stop after so many seconds; where the output is no terminal, of the city's.",
            show_default="until Ctrl-C, or 10 of the city's",
        ),
    ] = None,
    speed: Annotated[
        float, typer.Option(min=0.1, max=1000, help="Seconds of the city in one second.")
    ] = 5.0,
    nodes: Annotated[
        int, typer.Option(min=FEWEST_NODES, max=5000, help="How many live in the city.")
    ] = 60,
    seed: Annotated[int, typer.Option(help="Which city it is.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Do not draw; print the counts at the end as JSON.")
    ] = False,
) -> None:
    """Watch events find the nodes they concern, in a small living city."""
    _warm_up.main()
    console = Console()
    show = Show(CityRun(CityLife(nodes, seed)), ascii_only=console.options.ascii_only)
    with _interruptible() as stopped:
        if console.is_terminal and not console.is_dumb_terminal and not as_json:
            show.speed = speed
            show.watch(console, seconds, stopped)
        else:
            for _ in range(round(UNWATCHED_S if seconds is None else seconds)):
                if stopped.is_set():
                    break
                show.step()
                for happening in () if as_json else show.news():
                    typer.echo(line(happening).plain)
    counts = show.run.statistics()
    if as_json:
        typer.echo(json.dumps({"seed": seed, **counts}))
    else:
        typer.echo(
            f"{clock(counts['seconds'])}: {counts['events']} events, of which "
            f"{counts['heard_by_nobody']} concerned nobody; {counts['deliveries']} deliveries to "
            f"{counts['nodes']} nodes with {counts['subscriptions']} subscriptions, "
            f"{counts['met_later']} of them met on the way."
        )


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Provide an event that Ctrl-C sets.

    A KeyboardInterrupt could be raised in code that cannot pass it on, such as a callback of C.
    """
    stopped = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: stopped.set())
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


class Show:
    """Draws a run of the city."""

    def __init__(self, run: CityRun, *, ascii_only: bool = False) -> None:
        self.run = run
        self.speed = 0.0
        self._ascii_only = ascii_only
        self._step_s: deque[float] = deque(maxlen=AVERAGED)

    def watch(self, console: Console, seconds: float | None, stopped: threading.Event) -> None:
        """Show the city until it is stopped, or for a number of seconds."""
        started = time.monotonic()
        city_s = 0.0
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not stopped.is_set():
                if seconds is not None and time.monotonic() - started >= seconds:
                    break
                frame_ends = time.monotonic() + 1.0 / FRAMES_PER_S
                city_s += self.speed / FRAMES_PER_S
                while self.run.time_s < int(city_s) and time.monotonic() < frame_ends:
                    self.step()
                # If the speed cannot be reached, the city runs slower, but stays on the screen.
                city_s = min(city_s, self.run.time_s + 1.0)
                live.update(self.screen(console.width, console.height, city_s), refresh=True)
                stopped.wait(max(0.0, frame_ends - time.monotonic()))

    def step(self) -> None:
        """Advance the city by a second, and time the engine's part of it."""
        inputs = self.run.prepare()
        began = time.perf_counter()
        self.run.step(inputs)
        self._step_s.append(time.perf_counter() - began)

    def news(self) -> list[Happening]:
        """Return the happenings of the last second."""
        return [each for each in self.run.happenings if each.time_s == self.run.time_s]

    def screen(self, width: int, height: int, time_s: float) -> Layout:
        """Return the whole layout for a terminal size."""
        signs = legend(width - 2, ascii_only=self._ascii_only)[: height // 8]
        below = max(6, min(height // 3, 16) - len(signs))
        map_height = height - below - len(signs) - 2
        whole = Layout()
        top = Layout()
        map_width = max(width - SIDE_WIDTH, 1)
        panel = Panel(
            self.map(max(map_width - 4, 1), max(map_height, 1), time_s),
            title=f"[bold]a small city[/] {clock(int(time_s))}",
            border_style="grey50",
        )
        top.split_row(Layout(panel), Layout(self.counts(map_height), size=SIDE_WIDTH))
        whole.split_column(
            top,
            *([Layout(Padding(Group(*signs), (0, 1)), size=len(signs))] if signs else []),
            Layout(self.log(width - 4, below - 2), size=below),
        )
        return whole

    def map(self, width: int, height: int, time_s: float) -> Group:
        """Return the map at a time."""
        drawn = draw_map(
            self.run.life.city, self.picture(time_s), width, height, ascii_only=self._ascii_only
        )
        return Group(*drawn)

    def picture(self, time_s: float) -> Picture:
        """Return the picture of the city at a time."""
        run = self.run
        positions = run.life.positions(time_s)
        received = self._received(time_s)
        return Picture(
            [
                DrawnNode(resident.kind, positions[node], received.get(node, ""))
                for node, resident in run.life.residents.items()
            ],
            [event.to for event in run.live.values() if isinstance(event.to, Circle)],
            [
                Circle(positions[announced.node], announced.to.shape.radius_m)
                for announced in run.engine.announcements.values()
                if isinstance(announced.to, Around) and isinstance(announced.to.shape, MovingCircle)
            ],
            [
                (event.position, time_s - event.time)
                for event in run.recent
                if event.position is not None
            ],
        )

    def counts(self, height: int) -> Panel:
        """Return the statistics."""
        found = self.run.statistics()
        step_ms = 1000.0 * sum(self._step_s) / max(len(self._step_s), 1)
        rows = [
            ("nodes", f"{found['nodes']:,}"),
            ("subscriptions", f"{found['subscriptions']:,}"),
            ("events", f"{found['events']:,}"),
            ("events/s", f"{self.speed * found['events'] / max(self.run.time_s, 1):.1f}"),
            ("concerned nobody", f"{found['heard_by_nobody']:,}"),
            ("deliveries", f"{found['deliveries']:,}"),
            ("met on the way", f"{found['met_later']:,}"),
            ("live events", f"{found['live_events']:,}"),
            ("inputs applied", f"{found['inputs']:,}"),
            ("engine step", f"{step_ms:.1f} ms"),
            ("rules, atoms", f"{found['rules']}, {found['atoms']}"),
            ("index", f"{found['bytes'] / 1024:,.0f} KiB"),
            ("speed", f"{self.speed:g} x"),
        ]
        grid = Table.grid(expand=True)
        grid.add_column(style="grey70")
        grid.add_column(justify="right", style="bold")
        for row in rows[: max(height, 0)]:
            grid.add_row(*row)
        return Panel(grid, title="statistics", subtitle="Ctrl-C ends", border_style="grey50")

    def log(self, width: int, height: int) -> Panel:
        """Return the latest deliveries, and why a node did not get an event."""
        lines = [line(happening) for happening in [*self.run.happenings][-max(height - 1, 1) :]]
        missed = self.run.missed
        if missed is not None:
            lines += [Text()] * (height - 1 - len(lines))
            why = f"why not {missed.node}? {missed.event.subject}: {missed.why}"
            lines.append(Text(why, style="italic grey62"))
        for each in lines:
            each.truncate(width, overflow="crop" if self._ascii_only else "ellipsis")
        return Panel(Group(*lines), title="who got what (priority)", border_style="grey50")

    def _received(self, time_s: float) -> dict[str, str]:
        """Return the nodes that recently got an event, with the first level of its subject."""
        return {
            copy.node: happening.event.subject.partition("/")[0]
            for happening in self.run.happenings
            if time_s - happening.time_s <= FADES_S / 2
            for copy in happening.copies
        }
