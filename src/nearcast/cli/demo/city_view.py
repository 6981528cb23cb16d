"""The view of a city on a broker, in a terminal.

From the top: the map, beside it the broker's addresses and statistics and the progress of the
pipeline; then the legend, commands for another terminal, and deliveries. Everything is fitted to
the size of the terminal; on a small one each part is reduced.
"""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from rich.console import Group
from rich.text import Text

from nearcast.cli.demo.city_drawing import (
    LEGEND,
    clock,
    draw_map,
    legend,
    line,
    plain,
    subject_style,
)
from nearcast.cli.demo.city_scene import CityScene
from nearcast.cli.demo.pipeline_steps import PipelineProgress
from nearcast.simulation.movement.city_run import Happening
from nearcast.wire.handover import PUBLISHER as PIPELINE

SIDE_WIDTH, SIDE_HEIGHT = 33, 13
FEWEST_NEWS = 3
WIDE = 110
"""From this width on, decisions of the broker and of Spark are side by side."""
SIGNS: Mapping[str, str] = LEGEND | {"visitor": "visitor"}
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_SPINNER = "|/-\\"
DIM, TITLE = "grey50", "bold"


class ViewCaptions(Struct, frozen=True):
    """The constant texts of the view: addresses, and commands to type."""

    addresses: Sequence[str]
    commands: Sequence[str]
    log: str
    without_pipeline: str | None = None
    """Why there is no pipeline."""


class CityView:
    """Draws a scene, and the state of the broker and the pipeline."""

    def __init__(
        self,
        scene: CityScene,
        setting: ViewCaptions,
        figures: Callable[[], Mapping[str, float]],
        progress: Callable[[], PipelineProgress | None],
    ) -> None:
        self.scene = scene
        self._setting = setting
        self._figures = figures
        self._progress = progress
        self._ascii_only = False
        self._frames = 0

    def screen(self, width: int, height: int, *, ascii_only: bool = False) -> Group:
        """Return the rows of the view for a terminal size."""
        self._ascii_only = ascii_only
        self._frames += 1
        rows = [*self._rows(width, height)][:height]
        for row in rows:
            row.no_wrap = True
            row.truncate(width, overflow="crop" if self._ascii_only else "ellipsis")
        return Group(*rows)

    def _rows(self, width: int, height: int) -> Iterator[Text]:
        signs = legend(width - 2, SIGNS, ascii_only=self._ascii_only)
        commands = [Text(f" {each}", style="bold") for each in self._setting.commands]
        fixed = 1 + len(signs) + 1 + len(commands) + 1
        map_width = max(width - SIDE_WIDTH - 1, 1)
        top = self._map_height(map_width, height - fixed)
        yield self._header(width)
        drawn = draw_map(
            self.scene.life.city,
            self.scene.picture(),
            map_width,
            top,
            ascii_only=self._ascii_only,
        )
        side = [*self._side(SIDE_WIDTH)]
        for number in range(top):
            beside = side[number] if number < len(side) else Text()
            yield Text.assemble(drawn[number], " ", beside)
        for each in signs:
            yield Text.assemble(" ", each)
        yield self._rule("in another terminal", width, f"log: {self._setting.log}")
        yield from commands
        yield from self._news(width, height - fixed - top)

    def _map_height(self, width: int, height: int) -> int:
        """Return how many of the remaining rows the map gets: as many as its streets need."""
        city = self.scene.life.city
        most = max(height - FEWEST_NEWS, 1)
        blocks = min((most - 1) // (city.rows - 1), (width - 1) // (2 * (city.columns - 1)))
        return max(blocks * (city.rows - 1) + 1, min(most, SIDE_HEIGHT))

    def _header(self, width: int) -> Text:
        left = Text.assemble(
            (" Nearcast", TITLE), f"  a small living city {clock(int(self.scene.time_s))}"
        )
        right = "Ctrl-C ends it "
        left.pad_right(max(width - left.cell_len - len(right), 1))
        return left + Text(right, style=DIM)

    def _rule(self, title: str, width: int, right: str = "") -> Text:
        dash = "-" if self._ascii_only else "─"
        end = f" {right} {dash}" if right else ""
        left = f"{dash} {title} "
        between = dash * max(width - len(left) - len(end), 0)
        return Text.assemble((left, DIM), (between, DIM), (end, DIM))

    # Broker and pipeline

    def _side(self, width: int) -> Iterator[Text]:
        for address in self._setting.addresses:
            yield Text(address)
        figures, scene = self._figures(), self.scene
        yield _pair("clients", f"{figures.get('connections', 0):,.0f}", width)
        yield _pair("subscriptions", f"{figures.get('subscriptions', 0):,.0f}", width)
        yield _pair("sent, got by the city", f"{scene.sent:,}, {scene.received:,}", width)
        visitors = scene.visitors
        if visitors:
            yield _pair("visitors", plain(", ".join(visitors)), width)
        yield from self._pipeline(width)

    def _pipeline(self, width: int) -> Iterator[Text]:
        found = self._progress()
        if found is None:
            yield Text("no pipeline on Spark", style=TITLE)
            for line in textwrap.wrap(self._setting.without_pipeline or "", width):
                yield Text(line, style="yellow")
            return
        starts = "" if found.is_up else " starts"
        yield Text(f"the pipeline on Spark{starts}", style=TITLE)
        if found.problem is not None:
            for line in textwrap.wrap(found.problem, width)[:3]:
                yield Text(line, style="yellow")
        if not found.is_up:
            for step in found.steps:
                sign, style = self._step_sign(step.state)
                yield Text.assemble((sign, style), " ", (str(step), style))
        elif found.status is not None:
            queries = found.status.queries
            slowest = max(query.batch_s for query in queries)
            rows = max(sum(query.lag.values()) for query in queries)
            yield _pair("queries", ", ".join(query.name for query in queries), width)
            yield _pair("slowest batch", f"{slowest:.1f} s", width)
            yield _pair("rows behind", f"{rows:,}", width)
            for kind, count in self.scene.counts.items():
                yield _pair(f"found: {kind}", f"{count:,}", width)

    def _step_sign(self, state: str) -> tuple[str, str]:
        if state == "done":
            return ("x" if self._ascii_only else "✓"), "green"
        if state == "now":
            frames = ASCII_SPINNER if self._ascii_only else SPINNER
            return frames[self._frames % len(frames)], "bold"
        return ("." if self._ascii_only else "·"), DIM

    # News

    def _news(self, width: int, height: int) -> Iterator[Text]:
        happenings, found = [*self.scene.happenings], [*self.scene.found]
        if width >= WIDE:
            half = width // 2
            yield self._rule("who got what (priority)", half) + self._rule(
                "decided in Spark", width - half
            )
            left, right = _last(happenings, height), _of_each_kind(found, height)
            for number in range(height):
                first = Text(" ") + happening_line(left[number]) if number < len(left) else Text()
                first.truncate(half - 1, overflow="crop" if self._ascii_only else "ellipsis")
                first.pad_right(half + 1 - first.cell_len)
                yield first + happening_line(right[number]) if number < len(right) else first
            return
        yield self._rule("who got what (priority), and what was decided in Spark", width)
        some = min(len(found), max(height // 2, 1))
        chosen = [*_last(happenings, height - some), *_of_each_kind(found, some)]
        for each in sorted(chosen, key=lambda happening: happening.time_s):
            yield Text(" ") + happening_line(each)


def happening_line(happening: Happening) -> Text:
    """Return a happening as a line; events of the pipeline have a text of their own."""
    if happening.event.publisher != PIPELINE:
        return line(happening)
    return Text.assemble(
        (clock(happening.time_s), "grey50"),
        " ",
        (plain(_of_pipeline(happening)), subject_style(happening.event.subject)),
    )


def _of_pipeline(happening: Happening) -> str:
    event = happening.event
    attributes, kind = event.attributes, event.subject.partition("/")[0]
    if kind == "encounters" and attributes.get("state") == "near":
        pair = f"{attributes.get('a')} is near {attributes.get('b')}"
        return f"encounter: {pair}, {_number(attributes, 'distance_m')} m"
    if kind == "encounters":
        return f"encounter: {attributes.get('a')} and {attributes.get('b')} are apart again"
    if "people" in attributes or "count" in attributes:
        means = attributes.get("attributes")
        found = means.items() if isinstance(means, dict) else ()
        parts = [
            f"{name} {_number(each, 'mean')}" for name, each in found if isinstance(each, dict)
        ]
        of = f"{_number(attributes, 'count')} events of {_number(attributes, 'people')} people"
        return ", ".join([f"aggregate: {event.subject}, {of}", *parts])
    parts = [
        f"{name}={_number(attributes, name)}"
        for name in attributes
        if isinstance(attributes[name], int | float)
    ]
    return f"{event.subject} {' '.join(parts)}"


def _number(of: Mapping[str, object], name: str) -> str:
    value = of.get(name)
    if isinstance(value, list):
        return str(len(value))
    return f"{value:.3g}" if isinstance(value, int | float) else "?"


def _pair(name: str, value: str, width: int) -> Text:
    """Return a name and a value at both ends of a line; a long value is cut."""
    room = max(width - len(name) - 1, 1)
    shown = value if len(value) <= room else f"{value[: room - 2]}.."
    return Text.assemble((name, "grey70"), " " * max(width - len(name) - len(shown), 1), shown)


def _of_each_kind(happenings: Sequence[Happening], most: int) -> Sequence[Happening]:
    """Return the latest happenings, including the latest of each subject if there is room.

    A batch of the pipeline brings many encounters at once, which would hide all others.
    """
    latest = {
        (each.event.publisher == PIPELINE, each.event.subject.partition("/")[0]): at
        for at, each in enumerate(happenings)
    }
    chosen = sorted(latest.values())[-most:] if most > 0 else []
    others = [at for at in range(len(happenings)) if at not in chosen]
    chosen += others[len(others) - max(most - len(chosen), 0) :]
    return [happenings[at] for at in sorted(chosen)]


def _last(happenings: Sequence[Happening], most: int) -> Sequence[Happening]:
    return happenings[-most:] if most > 0 else ()
