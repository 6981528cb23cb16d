"""Kernels compiled at set-up, so that no first event waits for a compiler.

numba keeps machine code on disk and checks it against the file of each function, but not against
the files that the function uses. Here the sources of all kernels and of what they import are
remembered together: when one of them changed, everything compiled is dropped and compiled again,
by using each operation once. Run as ``python -m nearcast._warm_up``.
"""

import ast
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from nearcast import _kernel_cache

PACKAGE = Path(__file__).parent
KERNEL_DECORATOR = "nearcast.core.compiled"

AREAS = (
    "circle:53.35,-6.26,500",
    "circle:me,500",
    "circle:ann,500",
    "circle:ann,500,offset=100;0",
    "bbox:53,-7,54,-6",
    "POLYGON((-7 53, -6 53, -6 54, -7 54, -7 53))",
    "MULTIPOLYGON(((-7 53, -6 53, -6 54, -7 53)), ((0 0, 1 0, 1 1, 0 0)))",
    '{"moving": {"with": "me", "box": {"width": 500, "height": 500}}}',
    "place:city/Dublin",
    "place:here/city",
)
MANY = 3000
FILTERS = (
    "speed < 20 AND kind = 'car'",
    "NOT fast OR speed BETWEEN 10 AND 30",
    "kind IN ('car', 'bus') AND colour IS NULL",
    "me.role = 'medic' AND publisher.role <> 'medic'",
    "distance(me, event) < 500",
    "distance(publisher, POINT(-6.26 53.35)) < 500",
    "approaching(event)",
    "friend(publisher)",
    "kind LIKE 'c%'",
    "count('#', 'speed > 1', 500) > 3",
)


def main() -> None:
    """Compile all kernels unless nothing changed since they were last compiled."""
    advice = _kernel_cache.choose()
    if advice is not None:
        sys.stderr.write(f"{advice}\n")
    if is_warm():
        return
    from rich.console import Console

    console = Console(stderr=True)
    started = time.monotonic()
    with console.status("Compiling kernels"):
        warm_up()
    console.print(f"Compiled kernels in {time.monotonic() - started:.0f} s")


def is_warm() -> bool:
    """Return whether the kernels on disk were compiled from the sources as they are now."""
    try:
        return _mark().read_text() == fingerprint()
    except OSError:
        return False


def warm_up() -> None:
    """Drop all that was compiled, and compile it again."""
    # A source that changes while kernels compile must count as changed afterwards.
    compiled_from = fingerprint()
    # Where nothing can be kept there is nothing to drop.
    with suppress(OSError):
        _mark().unlink(missing_ok=True)
        for pattern in ("*.nbi", "*.nbc"):
            for file in _cache().rglob(pattern):
                file.unlink(missing_ok=True)
    use_everything()
    with suppress(OSError):
        _mark().parent.mkdir(parents=True, exist_ok=True)
        _mark().write_text(compiled_from)


def fingerprint() -> str:
    """Return a digest of all that compiled code depends on."""
    digest = hashlib.sha256(f"{sys.version} {version('numba')}".encode())
    digest.update(Path(__file__).read_bytes())
    for source in sorted(kernel_sources()):
        digest.update(f"\n{source.relative_to(PACKAGE)} {source.stat().st_mtime_ns}\n".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()


def kernel_sources() -> set[Path]:
    """Return the files that hold kernels, and all of ours that these import."""
    imports = {path: set(_imports(path)) for path in PACKAGE.glob("core/**/*.py")}
    found = {path for path, modules in imports.items() if KERNEL_DECORATOR in modules}
    pending = list(found)
    while pending:
        for module in imports[pending.pop()]:
            stem = PACKAGE.parent.joinpath(*module.split("."))
            for path in (stem.with_suffix(".py"), stem / "__init__.py"):
                if path in imports and path not in found:
                    found.add(path)
                    pending.append(path)
    return found


def load() -> None:
    """Load what was compiled for a broker: the first client that needs it does not wait for it.

    Where nothing is compiled, or something has changed since, each kernel is loaded at first use.
    """
    try:
        since = _mark().stat().st_mtime_ns
    except OSError:
        return
    if all(path.stat().st_mtime_ns <= since for path in PACKAGE.glob("core/**/*.py")):
        _match(1)
        _go_as_columns()


def use_everything() -> None:
    """Use every operation that has a kernel once."""
    # Enough that every table grows and is tidied up again.
    _match(MANY)
    _go_as_columns()
    _let_nodes_meet()


def _match(most: int) -> None:
    """Call every kernel of areas and of matching, with so many subscriptions at the end."""
    import numpy as np

    from nearcast.core.language import parse
    from nearcast.core.matching.index.cells import new_cells, packed
    from nearcast.core.matching.matcher import Matcher
    from nearcast.core.model import Event, Position, Subscription, circle, parse_area
    from nearcast.core.model.context import Value
    from nearcast.core.model.event import Relevance
    from nearcast.core.model.event_batch import EventBatch
    from nearcast.core.model.geometry.area import Box, Circle, Polygon
    from nearcast.core.model.geometry.area_resolution import holds, resolve
    from nearcast.core.model.geometry.bounds import bounding_circle
    from nearcast.core.model.geometry.geodesy import distance_m
    from nearcast.core.model.geometry.margins import is_beyond
    from nearcast.core.model.geometry.places import Places

    here, near = Position(53.35, -6.26), Position(53.351, -6.261)
    for other in (near, Position(0.0, 0.0), Position(-53.35, 173.74)):
        distance_m(here.lat, here.lon, other.lat, other.lon)
    places = Places()
    city = parse_area("bbox:53,-7,54,-6")
    assert isinstance(city, Box)
    places.add("city", "Dublin", city)
    areas = [parse_area(text) for text in AREAS]
    for area in areas:
        meant = resolve(area, caller=here, position_of=lambda _: near, places=places)
        holds(meant, near)
        if meant is not None:
            is_beyond(meant, here, 10.0)
            is_beyond(meant, Position(52.0, -6.26), 10.0)
    many = [(i / 99, (i % 2) / 99) for i in range(99)]
    bounding_circle(Polygon(((*many, (0.0, 1.0), many[0]),)))
    bounding_circle(city)
    bounding_circle(Circle(here, 500.0))

    matcher = Matcher(places)
    matcher.add(Subscription("first", "ann", "traffic/#"))
    subscriptions = [
        Subscription(f"area {i}", "ben", "traffic/+", from_=area) for i, area in enumerate(areas)
    ]
    subscriptions += [
        Subscription(f"filter {i}", "ben", "traffic/jam", where=parse(text), from_=areas[i % 2])
        for i, text in enumerate(FILTERS)
    ]
    slow_first, weights = parse("speed < 5 OR TRUE"), Relevance((3, 1))
    subscriptions.append(
        Subscription("relevance", "ben", "#", slow_first, relevance=weights, no_local=True)
    )
    numbers = matcher.add_many(subscriptions)
    matcher.update("ann", {"role": "driver", "friends": ["ben"]})
    matcher.update("ben", {"role": "medic"})
    for node, position in (("ann", here), ("ben", near), ("ben", here)):
        matcher.move(node, position)
    rows = matcher.rows(("ann", "ben"))
    matcher.move_many(rows, np.array([53.35, 53.3501]), np.array([-6.26, -6.2601]))

    attributes: dict[str, Value] = {
        "speed": 12,
        "kind": "car",
        "fast": False,
        "nested": {"lane": 2},
    }
    events = [
        Event(f"e{i}", "traffic/jam", "ann", 0.0, attributes, position=here, to=to)
        for i, to in enumerate([None, *areas])
    ]
    nowhere = Event("nowhere", "traffic/jam", "stranger", 0.0)
    matcher.match(EventBatch.of([*events, nowhere]))
    matcher.match(EventBatch.of([nowhere]))
    for event in events:
        matcher.live.put(event.id, event)
    matcher.live.seen.mark(np.array([0, 1], np.int32), ("ben", "ben"))
    live = matcher.subscriptions_of("ben")
    matcher.live_matches(live, (), ["ben"] * len(live))
    some_rows = np.zeros(1, np.int32)
    matcher.live.seen.unseen(some_rows, matcher.live.seen.numbers(("ben",)))
    matcher.live.seen.unmark(0, "ben")
    matcher.live.seen.forget_session("ben")
    matcher.sight.set_group("ann", 2)
    matcher.sight.set_groups(1, 2, 0)
    matcher.sight.set_exception("ben", "ann", 7)
    matcher.match(EventBatch.of(events))
    matcher.sight.set_exception("ben", "ann", None)
    matcher.refresh_places()
    matcher.forget("ben")
    matcher.remove(int(numbers[0]))
    matcher.remove_many(numbers[1:])
    crowd = [
        Subscription(
            f"one of many {i}", f"node {i}", "a/b", parse(f"x = {i}"), circle((i / 50, i / 50), 5e3)
        )
        for i in range(most)
    ]
    for _ in range(2):
        matcher.remove_many(matcher.add_many(crowd))
    packed(new_cells(4, 8, chained=True))


def _go_as_columns() -> None:
    """Call every kernel of events that go through the engine as columns."""
    import numpy as np

    from nearcast.core.engine.delivery.deliveries import merged_copies, sorted_rows
    from nearcast.core.engine.delivery.match_order import order_by_owner
    from nearcast.core.engine.delivery.string_pair_table import StringPairTable
    from nearcast.core.matching.matcher import Matches
    from nearcast.core.model.flat_json import carried_by

    payload = b'{"speed": 1.5, "kind": "car", "fast": true, "lane": null}'
    carried_by(np.frombuffer(payload, np.uint8), np.array([0, len(payload)], np.int32))
    some = np.array([0, 1], np.int32)
    merged_copies(sorted_rows(Matches(some[::-1].copy(), some, some)), some)
    order_by_owner(some, np.empty(2, np.int64))
    StringPairTable([("ann", "1"), ("ben", "2")]).taken(some, some)


def _let_nodes_meet() -> None:
    """Call every kernel of meetings."""
    import numpy as np

    from nearcast.core.relationships.meeting_cells import cells_of, sent
    from nearcast.core.relationships.meetings import Fixes, Meetings, MeetingSettings

    settings = MeetingSettings()
    at = np.array([53.35]), np.array([-6.26])
    nowhere = np.array([np.nan]), np.array([np.nan])
    sent(settings.grid, settings.within_m, *at, *nowhere)
    (cell,) = cells_of(settings.grid, *at).tolist()
    fixes = np.array([[0.0, 53.35, -6.26], [1.0, 53.35, -6.26]])
    meetings = Meetings(settings, cell)
    meetings.advance(Fixes(["a", "b"], fixes, np.full((2, 3), np.nan)))
    Meetings.from_bytes(settings, cell, meetings.to_bytes()).expire(1e6)


def _imports(path: Path) -> Iterator[str]:
    """Yield every module that a file may import from, other than for types only."""
    pending: list[ast.AST] = [ast.parse(path.read_bytes())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))


def _cache() -> Path:
    """Return the directory under which numba keeps compiled code."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or PACKAGE)


def _mark() -> Path:
    """Return the file that says what the cached code was compiled from."""
    name = f"kernels-{sys.implementation.cache_tag}.txt"
    if os.environ.get("NUMBA_CACHE_DIR"):
        return _cache() / name
    return PACKAGE / "core" / "__pycache__" / name


if __name__ == "__main__":
    main()
