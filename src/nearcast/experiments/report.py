"""How results are shown: a table on a terminal, and a PNG for each figure."""

from collections.abc import Iterable
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearcast.experiments.experiment_result import (
    ExperimentFigure,
    ExperimentResult,
    ExperimentRow,
)


def show(result: ExperimentResult, console: Console) -> None:
    """Print the rows as a table, and the notes below it.

    A paper's number in brackets is what a formula of it gives.
    """
    table = Table(
        title=f"Experiment {result.experiment}, seed {result.seed}",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("source", no_wrap=True)
    table.add_column("case", overflow="fold", min_width=24)
    table.add_column("paper", justify="right")
    table.add_column("ours", justify="right")
    table.add_column("unit", no_wrap=True)
    notes: dict[str, int] = {}
    before = ""
    for row in result.rows:
        mark = ""
        if row.note:
            mark = f" [{notes.setdefault(row.note, len(notes) + 1)}]"
        source = row.source if row.source != before else ""
        before = row.source
        cells = (source, row.case, _paper(row), _ours(row) + mark, row.unit)
        table.add_row(*map(Text, cells))
    console.print(table)
    for note, number in notes.items():
        console.print(Text(f"[{number}] {note}"))


def missed_aims(result: ExperimentResult) -> list[str]:
    """Return a line for each figure that exceeds its aim."""
    return [
        f"{row.source}: {row.case}: {row.ours:g} {row.unit}, aim: at most {row.at_most:g}"
        for row in result.rows
        if row.at_most is not None and row.ours > row.at_most
    ]


def draw(figures: Iterable[ExperimentFigure], folder: Path) -> list[Path]:
    """Draw each figure to a PNG in a folder, which is made; return the files."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for each in figures:
        figure = Figure(figsize=(7.0, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for curve in each.curves:
            axes.plot(curve.x, curve.y, marker="o", markersize=3.5, label=curve.name)
        if each.x_log:
            axes.set_xscale("log")
        if each.y_log:
            axes.set_yscale("log")
        axes.set_title(each.title)
        axes.set_xlabel(each.x_label)
        axes.set_ylabel(each.y_label)
        axes.grid(alpha=0.3)
        axes.legend()
        file = folder / f"{each.name}.png"
        figure.savefig(file, dpi=120)
        files.append(file)
    return files


def _paper(row: ExperimentRow) -> str:
    """The number of the text; in brackets what its formula gives where it has no number."""
    if row.paper is None:
        return "" if row.model is None else f"({number_text(row.model)})"
    return row.paper_atoms or number_text(row.paper)


def _ours(row: ExperimentRow) -> str:
    return row.our_atoms or number_text(row.ours)


def number_text(value: float) -> str:
    """A number with about three digits that count."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"
