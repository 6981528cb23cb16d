"""What an experiment found: rows beside those of its source document, and curves to draw."""

from collections.abc import Callable, Sequence

from msgspec import Struct

Progress = Callable[[str], None]
"""Called with the name of each part of an experiment when it begins."""


class ExperimentRow(Struct, frozen=True):
    """One number of a table or figure."""

    source: str
    """The table, figure or listing."""
    case: str
    paper: float | None
    """What the text of the document says; None if it gives no number."""
    ours: float
    unit: str = ""
    paper_atoms: str = ""
    """A set of atoms as it is printed, where the number is its size."""
    our_atoms: str = ""
    note: str = ""
    model: float | None = None
    """What a formula of the document gives, where its text prints no number."""
    at_most: float | None = None
    """What ours is to be at most; None: no aim of ours depends on it."""


class ExperimentResult(Struct, frozen=True):
    """What ``nearcast experiment NAME --json`` prints."""

    experiment: str
    seed: int
    rows: list[ExperimentRow]
    settings: dict[str, object]


class Curve(Struct, frozen=True):
    """A named line of a figure."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class ExperimentFigure(Struct, frozen=True):
    """A figure to draw."""

    name: str
    """The file that it is drawn to, without its ending."""
    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_log: bool = False
    y_log: bool = False
