"""Prints the figures of a situation run as tables."""

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nearcast.benchmarks.situation.benchmark import Line, SituationResult
from nearcast.benchmarks.situation.sides import KINDS_TOO, MOSQUITTO, OURS, RECORDED, REDIS

SHORT = {
    OURS: "nearcast",
    RECORDED: "nearcast+log",
    MOSQUITTO: "mosquitto",
    KINDS_TOO: "mosquitto+kinds",
    REDIS: "redis",
}


def show(result: SituationResult, console: Console) -> None:
    """Print all tables."""
    parts: list[RenderableType] = [Text(_heading(result)), ""]
    parts += _cells(result.cells)
    for filtered in (False, True):
        parts += _comparison(result, filtered)
    parts += _paced(result.paced)
    city_km = result.settings.scenario.side_m / 1e3
    parts += _growth(f"More movers in the same city of {city_km:g} km", result.denser)
    parts += _growth("More movers in a larger city, as dense as before", result.wider)
    parts += [Text(f"Not run: {name}: {why}") for name, why in result.skipped.items()]
    parts += [Text(f"Failed: {what}") for what in result.failures]
    console.print(Group(*parts))


def _heading(result: SituationResult) -> str:
    machine, scenario = result.machine, result.settings.scenario
    sides = "\n".join(
        f"  {SHORT[name]}: {result.versions[name]}, {describe}"
        for name, describe in result.describe.items()
    )
    return (
        f"Situation: {scenario.movers:,} movers in {scenario.side_m / 1e3:g} km want what happens "
        f"within {scenario.radius_m:g} m; best of {result.settings.runs}.\n"
        f"{machine['processor']}, {machine['cores']} cores, Python {result.versions['python']}.\n"
        f"{sides}\n"
        "CPU is that of the server and of all clients together. µs, bytes and what\n"
        "arrived are for a useful delivery; × is in terms of mosquitto."
    )


def _cells(lines: Sequence[Line]) -> list[RenderableType]:
    if not lines:
        return []
    table = _table("mosquitto's cells", "useful per\nCPU-second", "arrived", "bytes")
    for line in lines:
        cell = f"{line.cell_m:g} m{', with filters' * line.scenario.filtered}"
        table.add_row(cell, _number(line.useful_per_cpu_s), _arrived(line), _bytes(line))
    return ["Which cells are best for mosquitto", table]


def _comparison(result: SituationResult, filtered: bool) -> list[RenderableType]:
    lines = [line for line in result.comparison if line.scenario.filtered == filtered]
    if not lines:
        return []
    theirs = _of(lines, result.settings.scenario.movers, MOSQUITTO)
    title = f"All within {result.settings.scenario.radius_m:g} m"
    title += " of one kind and above a speed" if filtered else ""
    table = _table(
        "", "useful per\nCPU-second", "×", "µs\nserver", "µs\nclients", "bytes", "×",
        "messages\na move", "arrived",
    )  # fmt: skip
    for line in lines:
        table.add_row(
            SHORT[line.side], _number(line.useful_per_cpu_s),
            _ratio(line.useful_per_cpu_s, theirs.useful_per_cpu_s),
            *_microseconds(line), _bytes(line),
            _ratio(line.bytes_per_useful, theirs.bytes_per_useful),
            "" if line.messages_per_move is None else f"{line.messages_per_move:.2f}",
            _arrived(line),
        )  # fmt: skip
    table.add_row("aim", "", f"{result.wanted_ratio:g}", "", "", "", f"{result.wanted_bytes:g}")
    return [title, table]


def _paced(lines: Sequence[Line]) -> list[RenderableType]:
    if not lines:
        return []
    table = _table("", "p50 µs", "p99 µs", "useful per\nCPU-second", "useful")
    for line in lines:
        played = line.played
        name = f"{SHORT[line.side]}{', with filters' * line.scenario.filtered}"
        p50, p99, useful = (
            (None, None, None) if played is None else (played.p50_us, played.p99_us, played.useful)
        )
        rate = _number(line.useful_per_cpu_s)
        table.add_row(name, _number(p50), _number(p99), rate, _number(useful))
    return ["At the pace of life: latency, and CPU where little comes together", table]


def _growth(title: str, lines: Sequence[Line]) -> list[RenderableType]:
    if not lines:
        return []
    table = _table(
        "movers", "useful\nan event", "per CPU-s\nnearcast", "mosquitto", "×",
        "bytes\nnearcast", "mosq.", "µs a move\nnearcast", "mosq.",
    )  # fmt: skip
    for movers in dict.fromkeys(line.scenario.movers for line in lines):
        ours, theirs = (_of(lines, movers, side) for side in (OURS, MOSQUITTO))
        played = ours.played
        table.add_row(
            f"{movers:,}",
            "" if played is None else f"{played.useful / max(1, played.events):.1f}",
            _number(ours.useful_per_cpu_s), _number(theirs.useful_per_cpu_s),
            _ratio(ours.useful_per_cpu_s, theirs.useful_per_cpu_s),
            _bytes(ours), _bytes(theirs), _per_move(ours), _per_move(theirs),
        )  # fmt: skip
    return [f"{title}; a move: with its events", table]


def _of(lines: Sequence[Line], movers: int, side: str) -> Line:
    found = [line for line in lines if line.scenario.movers == movers and line.side == side]
    return found[0] if found else Line(side, lines[0].scenario, None)


def _microseconds(line: Line) -> tuple[str, str]:
    played = line.played
    if played is None or not played.useful:
        return "", ""
    each = 1e6 / played.useful
    return f"{played.server_cpu_s * each:.1f}", f"{played.client_cpu_s * each:.1f}"


def _per_move(line: Line) -> str:
    played = line.played
    if played is None:
        return ""
    return f"{1e6 * (played.server_cpu_s + played.client_cpu_s) / played.moves:.0f}"


def _arrived(line: Line) -> str:
    played = line.played
    return "" if played is None or not played.useful else f"{played.arrived / played.useful:.2f}"


def _bytes(line: Line) -> str:
    return "" if line.bytes_per_useful is None else f"{line.bytes_per_useful:,.0f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _ratio(value: float | None, other: float | None) -> str:
    return "" if value is None or not other else f"{value / other:.2f}"


def _table(first: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column(first, justify="left", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    return table
