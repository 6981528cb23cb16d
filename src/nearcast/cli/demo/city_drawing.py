"""The city as text: symbols, the map, the legend, and lines of events.

Shared by `nearcast demo`, which draws a run of the engine, and the view of `nearcast up --demo`,
which draws what clients of a broker sent and received.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from nearcast.core.model.event import Delivery
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.geometry.position import Position
from nearcast.simulation.movement.city import City
from nearcast.simulation.movement.city_map import CityMap
from nearcast.simulation.movement.city_run import Happening

FADES_S = 12
"""After this many seconds the mark of an event and the highlight of its receivers disappear."""

LOOKS = {
    "empty": (" ", " ", ""),
    "along": ("─", "-", "grey27"),
    "up": ("│", "|", "grey27"),
    "crossing": ("┼", "+", "grey27"),
    "place": ("░", ":", "grey30"),
    "siren": ("∙", ".", "red"),
    "hazard ring": ("∘", ",", "yellow"),
    "mark": ("✶", "*", "bright_white"),
    "fading mark": ("✶", "*", "grey50"),
    "person": ("•", "o", "cyan"),
    "car": ("▪", "c", "blue"),
    "bus": ("B", "B", "bold green"),
    "shop": ("$", "$", "bold magenta"),
    "works": ("W", "W", "bold yellow"),
    "hazard": ("▲", "!", "bold yellow"),
    "ambulance": ("A", "A", "bold white on red"),
    "visitor": ("@", "@", "bold bright_white"),
    "absent visitor": ("@", "@", "grey50"),
}
"""The character of each look, its ASCII replacement, and its style."""
LEGEND = {
    "ambulance": "ambulance",
    "siren": "its siren",
    "bus": "bus",
    "car": "car",
    "person": "person",
    "person|bus": "got an event",
    "mark": "event",
    "shop": "shop",
    "works": "works",
    "hazard": "hazard",
    "hazard ring": "its area",
    "place": "place",
    "along": "street",
}
"""The meaning of the symbols on the map."""
SUBJECT_STYLES = {
    "emergency": "red", "bus": "green", "offer": "magenta", "friend": "cyan", "hazard": "yellow",
    "spots": "bright_blue", "encounters": "bright_blue", "traffic": "bright_blue",
}  # fmt: skip
OTHER_SUBJECT = "white"
# Rare kinds are drawn last, so that they are not covered.
KINDS = ("person", "car", "works", "shop", "bus", "ambulance", "absent visitor", "visitor")


class DrawnNode(Struct, frozen=True):
    """A node on the map; `received` is the subject of its latest event."""

    kind: str
    position: Position
    received: str = ""
    label: str = ""


class Picture(Struct, frozen=True):
    """The visible state of the city at a time."""

    nodes: Sequence[DrawnNode]
    hazards: Sequence[Circle] = ()
    sirens: Sequence[Circle] = ()
    marks: Sequence[tuple[Position, float]] = ()
    """Positions of events, and their age in seconds."""


def draw_map(
    city: City, picture: Picture, width: int, height: int, *, ascii_only: bool
) -> list[Text]:
    """Return the rows of a map."""
    drawn = CityMap(city, width, height)
    drawn.lay_streets()
    for place in city.places:
        drawn.lay_place(place)
    for hazard in picture.hazards:
        drawn.ring(hazard.center, hazard.radius_m, "hazard ring")
    for siren in picture.sirens:
        drawn.ring(siren.center, siren.radius_m, "siren")
    for position, age_s in picture.marks:
        if age_s < FADES_S:
            drawn.put(position, "mark" if age_s < FADES_S / 2 else "fading mark")
    for kind in KINDS:
        for node in picture.nodes:
            if node.kind == kind:
                drawn.put(node.position, f"{kind}|{node.received}", node.label)
        if kind == "car":
            for hazard in picture.hazards:
                drawn.put(hazard.center, "hazard")
    return [
        Text.assemble(*(cell(look, ascii_only=ascii_only) for look in row), no_wrap=True)
        for row in drawn.rows
    ]


def cell(look: str, *, ascii_only: bool) -> tuple[str, str]:
    """Return the character of a look and its style; `KIND|SUBJECT`: a node that got an event."""
    if look.startswith("text:"):
        return look[5:], "grey74"
    kind, _, received = look.partition("|")
    style = LOOKS[kind][2]
    if received:
        style = f"bold black on {subject_style(received)}"
    return LOOKS[kind][1 if ascii_only else 0], style


def legend(width: int, signs: Mapping[str, str] = LEGEND, *, ascii_only: bool) -> list[Text]:
    """Return the legend, in as many lines as needed."""
    entries = [
        Text.assemble(cell(look, ascii_only=ascii_only), f" {meaning}")
        for look, meaning in signs.items()
    ]
    return list(_filled(entries, width))


def _filled(entries: Iterable[Text], width: int) -> Iterator[Text]:
    line = Text(no_wrap=True)
    for entry in entries:
        if line and line.cell_len + 2 + entry.cell_len > width:
            yield line
            line = Text(no_wrap=True)
        line = line + "  " + entry if line else line + entry
    yield line


def line(happening: Happening) -> Text:
    """Return a happening as a line: time, event, publisher, and receivers with priorities."""
    event = happening.event
    attributes = " ".join(f"{name}={value}" for name, value in event.attributes.items())
    return Text.assemble(
        (clock(happening.time_s), "grey50"),
        " ",
        (plain(event.subject), subject_style(event.subject)),
        f" {plain(event.publisher)}",
        (f" ({plain(attributes)})" if attributes else "", "grey62"),
        (" met by " if happening.later else " to ", "grey62"),
        receivers(happening.copies),
    )


def plain(text: str) -> str:
    """Return text from other users with every character exactly one terminal cell wide.

    Control characters could overwrite text on the terminal.
    """
    fits = (letter.isprintable() and cell_len(letter) == 1 for letter in text)
    return "".join(letter if fit else "?" for letter, fit in zip(text, fits, strict=True))


def receivers(copies: tuple[Delivery, ...]) -> str:
    """Return the receivers of an event, the most urgent first."""
    ordered = sorted(copies, key=lambda copy: copy.priority)
    names = ", ".join(f"{copy.node} ({copy.priority})" for copy in ordered)
    return f"{len(copies)}: {names}" if len(copies) > 1 else names or "nobody"


def subject_style(subject: str) -> str:
    """Return the colour of a subject, by its first level."""
    return SUBJECT_STYLES.get(subject.partition("/")[0], OTHER_SUBJECT)


def clock(time_s: int) -> str:
    """Return seconds as minutes and seconds."""
    return f"{time_s // 60:02d}:{time_s % 60:02d}"
