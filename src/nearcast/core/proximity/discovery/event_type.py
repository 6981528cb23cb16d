"""Event types: a subject, its typed content, and attributes of its delivery (seed D).

All events of a subject have one structure: every parameter is there and has its kind. Types are
announced together with a proximity, and both sides check events against them.
"""

import math
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from nearcast.core.model.context import Attributes
from nearcast.core.model.errors import did_you_mean
from nearcast.core.model.geometry.position import shown
from nearcast.core.model.subject import check_subject
from nearcast.core.proximity.errors import EventTypeError

Kind = Literal["boolean", "integer", "number", "text", "position", "list", "object"]
Order = Literal["none", "producer"]

KINDS: Mapping[type, Kind] = {
    bool: "boolean", int: "integer", float: "number", str: "text", list: "list", dict: "object",
}  # fmt: skip
_NAMES: tuple[Kind, ...] = ("boolean", "integer", "number", "text", "position", "list", "object")
MOST_PARAMETERS = 64
LONGEST_NAME = 64
LONGEST_SUBJECT = 1_000
LONGEST_S = 7 * 86_400.0
LOWEST_PRIORITY = 9


class EventType(Struct, frozen=True, array_like=True):
    """What the events of a subject are like."""

    subject: str
    content: tuple[tuple[str, Kind], ...] | None = None
    """Names and kinds of the parameters, by name; None: anything."""
    validity_s: float | None = None
    """How long an event is true; it is delivered to whoever comes in meanwhile."""
    priority: int = 1
    """From 1, the most urgent: the order in which waiting events are sent."""
    deadline_s: float | None = None
    """Events older than this are neither sent, nor passed on, nor delivered."""
    order: Order = "none"
    """`producer`: each producer's events are delivered in the order in which they were raised."""

    def __post_init__(self) -> None:
        try:
            self._check()
        except EventTypeError:
            raise
        except ValueError as error:
            raise EventTypeError(str(error)) from None

    def _check(self) -> None:
        check_subject(self.subject)
        if len(self.subject) > LONGEST_SUBJECT:
            raise EventTypeError(
                f"a subject of {len(self.subject)} characters is longer than {LONGEST_SUBJECT}: it "
                "travels in every beacon"
            )
        if self.subject.startswith("$"):
            raise EventTypeError(f"subject {self.subject!r}: those that begin with $ are reserved")
        if self.content is not None:
            names = [name for name, _ in self.content]
            for name, kind in self.content:
                _check_parameter(name, kind)
            if len(names) > MOST_PARAMETERS or len(set(names)) < len(names):
                raise EventTypeError(
                    f"{self.subject!r} has {len(names)} parameters; at most {MOST_PARAMETERS} can "
                    "be given, each name once"
                )
            force_setattr(self, "content", tuple(sorted(self.content)))
        for what, value in (("validity", self.validity_s), ("deadline", self.deadline_s)):
            if value is not None and not (math.isfinite(value) and 0.0 < value <= LONGEST_S):
                raise EventTypeError(
                    f"{what} is {value} seconds; it is more than 0 and at most {LONGEST_S:.0f}"
                )
        if not 1 <= self.priority <= LOWEST_PRIORITY:
            raise EventTypeError(
                f"priority is {self.priority}; it is from 1, the most urgent, to {LOWEST_PRIORITY}"
            )
        if self.order not in ("none", "producer"):
            raise EventTypeError(f"order is {shown(self.order)}; it is 'none' or 'producer'")

    @property
    def text(self) -> str:
        """The textual description, of which groups are named."""
        if self.content is None:
            return self.subject
        return f"{self.subject}({','.join(f'{name}:{kind}' for name, kind in self.content)})"

    def lifetime_s(self, transient_s: float) -> float:
        """Return how long after it was raised an event may still be delivered."""
        lives = transient_s if self.validity_s is None else self.validity_s
        return lives if self.deadline_s is None else min(lives, self.deadline_s)

    def check(self, attributes: Attributes) -> None:
        """Raise `EventTypeError` if an event's attributes do not have this type."""
        if self.content is None:
            return
        for name, kind in self.content:
            if name not in attributes:
                raise EventTypeError(f"{self.subject!r} needs {name!r}, of kind {kind}")
            if not _CHECKS[kind](attributes[name]):
                value = shown(attributes[name])
                raise EventTypeError(f"{name!r} of {self.subject!r} is a {kind}, not {value}")
        if len(attributes) > len(self.content):
            known = [name for name, _ in self.content]
            extra = next(name for name in attributes if name not in known)
            raise EventTypeError(
                f"{self.subject!r} has no parameter {extra!r}{did_you_mean(extra, known)}; "
                f"its parameters are {', '.join(known)}"
            )


def event_type(
    subject: str,
    content: Mapping[str, type | str] | None = None,
    *,
    validity: float | None = None,
    priority: int = 1,
    deadline: float | None = None,
    order: Order = "none",
) -> EventType:
    """Return an event type; its parameters are given by Python types or the names of kinds.

    Kinds are boolean, integer, number, text, position ([lon, lat]), list and object. Raises
    `EventTypeError` for what is not valid.
    """
    parameters = None
    if content is not None:
        parameters = tuple((name, _kind(name, given)) for name, given in content.items())
    return EventType(subject, parameters, validity, priority, deadline, order)


def _kind(name: str, given: object) -> Kind:
    if isinstance(given, type) and given in KINDS:
        return KINDS[given]
    for kind in _NAMES:
        if given == kind:
            return kind
    hint = did_you_mean(given, _NAMES) if isinstance(given, str) else ""
    raise EventTypeError(
        f"parameter {name!r} is of no kind {shown(given)}{hint}; kinds are {', '.join(_NAMES)}"
    )


def _check_parameter(name: str, kind: str) -> None:
    if not name or len(name) > LONGEST_NAME:
        raise EventTypeError(f"a parameter's name has 1 to {LONGEST_NAME} characters")
    if kind not in _NAMES:
        raise EventTypeError(f"parameter {name!r} is of no kind {kind!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_position(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    lon, lat = value
    return _is_number(lon) and _is_number(lat) and abs(lat) <= 90.0 and abs(lon) <= 180.0


_CHECKS: Mapping[Kind, Callable[[object], bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "text": lambda value: isinstance(value, str),
    "position": _is_position,
    "list": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, dict),
}
