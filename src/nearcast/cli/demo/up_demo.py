"""`nearcast up --demo`: the environment of the demonstration, and its city."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import typer
from rich.console import Console

from nearcast import _warm_up
from nearcast.broker.config.configuration import load
from nearcast.broker.config.settings import Settings
from nearcast.broker.net.listeners import NO_LISTENER
from nearcast.cli.broker.addresses import Addresses
from nearcast.cli.broker.pipeline_process import PipelineBeside, pipeline_beside
from nearcast.cli.demo.city_observer import NAME as OBSERVER
from nearcast.cli.demo.city_scene import CityScene
from nearcast.cli.demo.city_show import CityInLines, CityOnScreen, Shown, show_city
from nearcast.cli.demo.city_view import CityView, ViewCaptions
from nearcast.cli.demo.demo_place import DemoPlace, demo_place, program
from nearcast.cli.demo.demo_settings import choose_demo
from nearcast.cli.demo.pipeline_steps import PipelineProgress, progress
from nearcast.cli.failures import fail
from nearcast.client.errors import ClientError
from nearcast.simulation.movement.city import CENTRE, City
from nearcast.simulation.movement.city_life import CityLife

RESIDENTS = 30
STOP_WITHIN_S = 6.0
"""How long to wait for the pipeline at the end; it may still be starting."""
USUAL_PORT = 1883


Screen = Callable[[CityView, asyncio.Event], Shown]
"""Makes the presentation of a view, which may end the demonstration."""


@contextmanager
def prepare(
    config: Path | None,
    options: Mapping[str, object],
    *,
    in_lines: bool,
    with_pipeline: bool,
    screen: Screen | None = None,
) -> "Iterator[Demonstration]":
    """Prepare a demonstration before its broker starts.

    It is shown on a screen, by default the terminal, or in lines if there is none.
    """
    _warm_up.main()
    with demo_place(config, os.environ, options) as place:
        options = {**options, **place.options}
        settings = load(config, os.environ, options)
        if settings.listen.mqtt_port == NO_LISTENER:
            raise typer.BadParameter(
                "the city's clients connect by MQTT on TCP", param_hint="--mqtt-port"
            )
        pipeline, why = None, "it was left out by --no-pipeline"
        if with_pipeline:
            pipeline, why = pipeline_beside(
                config,
                settings,
                output=place.log.fileno(),
                variables=place.variables,
                # Temporary results need not be completed.
                stop_within_s=0.0 if place.temporary else STOP_WITHIN_S,
            )
        if pipeline is not None:
            choose_demo(config, os.environ, options)
            settings = load(config, os.environ, options)
        if screen is None and not in_lines:
            screen = screen_of(Console())
        yield Demonstration(settings, place, pipeline, why, screen)


def screen_of(console: Console) -> Screen | None:
    """Return the terminal as a screen; None if it cannot be drawn on."""
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    return lambda view, stopped: CityOnScreen(view, console, stopped)


class Demonstration:
    """A city on a broker, and its presentation."""

    def __init__(
        self,
        settings: Settings,
        place: DemoPlace,
        pipeline: PipelineBeside | None,
        without_pipeline: str,
        screen: Screen | None,
    ) -> None:
        self.settings = settings
        self.pipeline = pipeline
        self._place = place
        self._without_pipeline = without_pipeline
        self._screen = screen
        decided = tuple(each for each, by in settings.decide.items() if by == "spark")
        self.scene = CityScene(CityLife(RESIDENTS), decided, OBSERVER)

    @property
    def log(self) -> TextIO:
        """The file for all other output."""
        return self._place.log

    def notices(self, addresses: Addresses) -> list[str]:
        """Return the initial notices: deviations from defaults, and commands to type."""
        commands = (f"  {each}" for each in self._commands(addresses))
        return [*self._place.notices, "In another terminal:", *commands]

    async def show(
        self,
        addresses: Addresses,
        figures: Callable[[], Mapping[str, float]],
        stopped: asyncio.Event,
    ) -> None:
        """Run the city, and show it until `stopped` is set."""
        try:
            await show_city(
                addresses.url, self.scene, self._shown(addresses, figures, stopped), stopped
            )
        except BaseExceptionGroup as group:
            error = _first(group)
            if error is None:
                raise
            fail(
                f"The city cannot live on this broker: {error} (its clients come without a name "
                "and a password)."
            )
        typer.echo(self.summary)
        typer.echo("Stopping.")

    @property
    def summary(self) -> str:
        """A summary of the run."""
        scene = self.scene
        found = ", ".join(f"{count} {kind}" for kind, count in scene.counts.items())
        return (
            f"The city sent {scene.sent} events in {scene.time_s:.0f} s and got {scene.received}"
            + (f"; the pipeline published {found}." if found else ".")
        )

    def _shown(
        self,
        addresses: Addresses,
        figures: Callable[[], Mapping[str, float]],
        stopped: asyncio.Event,
    ) -> Shown:
        if self._screen is None:
            return CityInLines(self.scene, self._progress, stopped)
        setting = ViewCaptions(
            [f"{name} {at}" for name, at in addresses.listeners.items()]
            + [each for each in (addresses.api,) if each is not None],
            self._commands(addresses),
            self._place.log.name,
            None if self.pipeline is not None else self._without_pipeline,
        )
        view = CityView(self.scene, setting, figures, self._progress)
        return self._screen(view, stopped)

    def _progress(self) -> PipelineProgress | None:
        if self.pipeline is None:
            return None
        return progress(Path(self.settings.node.data), self.pipeline)

    def _commands(self, addresses: Addresses) -> list[str]:
        """Return commands that subscribe in the city, move the subscriber, and publish."""
        call, middle = program(), f"{CENTRE.lat},{CENTRE.lon}"
        harbour = City().position((8, 1))
        port = "" if addresses.mqtt_port == USUAL_PORT else f" --port {addresses.mqtt_port}"
        return [
            f"{call} sub '#' --at {middle} --id you{port}",
            f"{call} context you --at {harbour.lat:.4f},{harbour.lon:.4f}{port}",
            f"{call} pub hazard/ice {{}} --to circle:{middle},300{port}",
        ]


def _first(group: BaseExceptionGroup[BaseException]) -> ClientError | None:
    """Return the first client error in a group, at any depth."""
    for error in group.exceptions:
        found = _first(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, ClientError):
            return found
    return None
