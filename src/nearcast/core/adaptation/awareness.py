"""Awareness: from measured values to one context class of a subscriber (seed C's A_i and C).

Each module classifies a number, an attribute of the context or a measurement of the host, by
intervals from the worst class to the best, with hysteresis at their borders. The context space maps
the classes of all modules to one class. A module without a number does not count; if none counts,
the class is the best one.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from nearcast.core.adaptation.errors import AdaptationError

WORST = "worst"
NETWORK, THROUGHPUT = "network", "throughput_kbps"
MOST_MODULES = 8

Space = int | tuple["Space", ...]
Interval = tuple[float, float]


class AwarenessModule(Struct, frozen=True):
    """How one value is classified."""

    name: str
    attribute: str = ""
    """The dotted name of a number in the context; empty: the host measures it."""
    measure: str = ""
    """What the host measures; empty: an attribute."""
    bounds: tuple[float, ...] = ()
    """The upper ends of all classes but the last: class k is bounds[k-2] < v <= bounds[k-1]."""
    hysteresis: float = 0.0
    """So far beyond a bound a value must be to leave its class."""

    def classify(self, value: float, before: int | None = None) -> int:
        """The class of a value, counted from 1; `before` is the class so far."""
        found = 1 + sum(value > bound for bound in self.bounds)
        if before is None or found == before or not self.hysteresis:
            return found
        if found > before:
            settled = 1 + sum(value - self.hysteresis > bound for bound in self.bounds)
            return max(before, settled)
        settled = 1 + sum(value + self.hysteresis > bound for bound in self.bounds)
        return min(before, settled)


class Awareness(Struct, frozen=True):
    """The modules in order, and the context space."""

    levels: int
    modules: tuple[AwarenessModule, ...] = ()
    space: Space | None = None
    """None: the worst class of all modules; else nested by the classes in the order of modules."""

    def context_class(self, classes: Mapping[str, int]) -> int:
        """The class of a subscriber by the classes of those modules that have one."""
        space = self.space
        if space is None:
            worst = self.levels
            for module in self.modules:
                worst = min(worst, classes.get(module.name, worst))
            return worst
        if not any(module.name in classes for module in self.modules):
            return self.levels
        for module in self.modules:
            assert isinstance(space, tuple)
            space = space[classes.get(module.name, self.levels) - 1]
        assert isinstance(space, int)
        return space

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that it reads."""
        return frozenset(module.attribute for module in self.modules if module.attribute)


def default_awareness(levels: int) -> Awareness:
    """The awareness without a policy: seed C's equal intervals of 0 to 3,750 kb/s."""
    width = 3_750.0 / levels
    bounds = tuple(width * k for k in range(1, levels))
    module = AwarenessModule(NETWORK, measure=THROUGHPUT, bounds=bounds, hysteresis=100.0)
    return Awareness(levels, (module,))


def checked_awareness(document: Mapping[str, object], levels: int) -> Awareness:
    """Read a policy; raise AdaptationError that says what is wrong where."""
    unknown = set(document) - {"modules", "space"}
    modules = document.get("modules")
    if unknown or not isinstance(modules, Mapping) or not modules:
        raise AdaptationError(
            'A policy of awareness has "modules" (by name) and "space", '
            + (f"not {min(unknown)!r}." if unknown else "and at least one module.")
        )
    if len(modules) > MOST_MODULES:
        raise AdaptationError(f"There are at most {MOST_MODULES} modules, not {len(modules)}.")
    read = tuple(_module(str(name), given, levels) for name, given in modules.items())
    space = document.get("space", WORST)
    return Awareness(levels, read, None if space == WORST else _space(space, len(read), levels))


def number_at(attributes: Mapping[str, object], path: str) -> float | None:
    """The number under a dotted name in a context; None if there is none."""
    value: object = attributes
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    found = _as_float(value)
    return found if math.isfinite(found) else None


def _module(name: str, given: object, levels: int) -> AwarenessModule:
    where = f"The module {name!r}"
    if not isinstance(given, Mapping):
        raise AdaptationError(f"{where} is an object with intervals.")
    unknown = set(given) - {"attribute", "measure", "intervals", "hysteresis"}
    if unknown:
        raise AdaptationError(
            f"{where} has attribute or measure, intervals and hysteresis, not {min(unknown)!r}."
        )
    attribute, measure = given.get("attribute", ""), given.get("measure", "")
    texts = isinstance(attribute, str) and isinstance(measure, str)
    if not texts or bool(attribute) == bool(measure):
        raise AdaptationError(f"{where} has either an attribute or a measure, as a name.")
    hysteresis = given.get("hysteresis", 0.0)
    if not _is_number(hysteresis) or not 0.0 <= hysteresis < math.inf:
        raise AdaptationError(
            f"{where}: hysteresis is a number of at least 0, not {repr(hysteresis)[:40]}."
        )
    bounds = _bounds(where, given.get("intervals"), levels)
    return AwarenessModule(name, attribute, measure, bounds, float(hysteresis))


def _bounds(where: str, given: object, levels: int) -> tuple[float, ...]:
    """The bounds between classes; intervals must cover all numbers between the first and last."""
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != levels:
        raise AdaptationError(f"{where} has {levels} intervals, from the worst class to the best.")
    intervals = [_interval(where, number, each) for number, each in enumerate(given, 1)]
    for number, ((_, high), (low, _)) in enumerate(pairwise(intervals), 1):
        if high != low:
            what = "overlap" if low < high else "leave a gap"
            raise AdaptationError(
                f"{where}: intervals {number} and {number + 1} {what}: one ends at {high:g}, and "
                f"the next begins at {low:g}; it begins where the one before ends."
            )
    return tuple(high for _, high in intervals[:-1])


def _interval(where: str, number: int, given: object) -> Interval:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise AdaptationError(f"{where}: interval {number} is [low, high].")
    low, high = given
    low = -math.inf if low is None else low
    high = math.inf if high is None else high
    if not _is_number(low) or not _is_number(high) or not low < high:
        raise AdaptationError(
            f"{where}: interval {number} is [low, high] with low < high; null is an open end."
        )
    return float(low), float(high)


def _space(given: object, modules: int, levels: int) -> Space:
    if modules == 0:
        if type(given) is not int or not 1 <= given <= levels:
            raise AdaptationError(
                f"A class in space is 1 (worst) to {levels}, not {repr(given)[:40]}."
            )
        return given
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != levels:
        raise AdaptationError(
            f'space is "{WORST}", or arrays of {levels}, nested once for each module in their '
            "order, of classes."
        )
    return tuple(_space(each, modules - 1, levels) for each in given)


def _is_number(value: object) -> bool:
    return not math.isnan(_as_float(value))


def _as_float(value: object) -> float:
    """Return a number as a float; NaN for anything else, also for an integer beyond all floats."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
