"""Sources of fixes: a GPS receiver, a file of NMEA sentences, recorded and simulated tracks.

Each is an async iterator of positions, which `follow` takes. Broken lines and sentences without a
fix are left out.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from pathlib import Path

import msgspec

from nearcast.client.api.areas import PositionLike
from nearcast.client.errors import ConnectionLostError
from nearcast.client.location.nmea import read_sentence
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import Position, position
from nearcast.simulation.movement.movement import Tour

GPSD_PORT = 2_947
_WATCH = b'?WATCH={"enable":true,"json":true}\n'
_LONGEST_LINE = 1 << 16
_FIX_2D = 2


async def as_they_come(
    source: AsyncIterable[PositionLike] | Iterable[PositionLike],
) -> AsyncGenerator[PositionLike, None]:
    """Yield the fixes of a source of either kind."""
    if isinstance(source, AsyncIterable):
        async for fix in source:
            yield fix
    else:
        for fix in source:
            yield fix
            # Others go on between two fixes.
            await asyncio.sleep(0)


async def gpsd(host: str = "localhost", port: int = GPSD_PORT) -> AsyncIterator[Position]:
    """Yield the fixes of the GPS receiver that a gpsd serves, until it ends the connection.

    Raises `ConnectionLostError` if there is no gpsd.
    """
    try:
        reader, writer = await asyncio.open_connection(host, port, limit=_LONGEST_LINE)
    except OSError as error:
        raise ConnectionLostError(
            f"no gpsd at {host}:{port} ({error.strerror or error}); start it with: "
            "gpsd -N /dev/ttyUSB0"
        ) from error
    try:
        writer.write(_WATCH)
        while line := await reader.readline():
            found = read_gpsd_report(line)
            if found is not None:
                yield found
    finally:
        writer.close()


def read_gpsd_report(line: bytes) -> Position | None:
    """Return the position in a report of gpsd; None if it has no fix."""
    try:
        report = msgspec.json.decode(line, type=dict[str, object])
        mode = report.get("mode")
        if report.get("class") != "TPV" or not isinstance(mode, int) or mode < _FIX_2D:
            return None
        return position(report.get("lat"), report.get("lon"))
    except (msgspec.DecodeError, ModelError, UnicodeDecodeError):
        return None


async def nmea(path: str | Path, *, speed: float = 1.0) -> AsyncIterator[Position]:
    """Yield the fixes of a file of NMEA sentences (RMC, GGA, GLL), in the time that it took.

    With `speed` 10 it takes a tenth of that, with 0 none. A device such as `/dev/ttyUSB0` is read
    as a file too.
    """
    loop = asyncio.get_running_loop()
    with await loop.run_in_executor(
        None, lambda: Path(path).open(encoding="ascii", errors="replace")
    ) as lines:
        before: float | None = None
        while line := await loop.run_in_executor(None, lines.readline, _LONGEST_LINE):
            found = read_sentence(line)
            if found is None or found.time_s == before:
                # Several sentences tell of one fix.
                continue
            if before is not None and speed > 0.0:
                passed_s = (found.time_s - before) % 86_400.0
                await asyncio.sleep(min(passed_s, 60.0) / speed)
            before = found.time_s
            yield found.position


async def recorded(
    fixes: Iterable[tuple[float, PositionLike]], *, speed: float = 1.0
) -> AsyncIterator[PositionLike]:
    """Yield recorded fixes, given with their times in seconds, in the time between them."""
    before: float | None = None
    for time_s, fix in fixes:
        if before is not None and speed > 0.0:
            await asyncio.sleep(max(time_s - before, 0.0) / speed)
        before = time_s
        yield fix


async def simulated(
    tour: Tour | Callable[[float], PositionLike], *, every_s: float = 1.0, seconds: float,
    speed: float = 1.0,
) -> AsyncIterator[PositionLike]:  # fmt: skip
    """Yield the fixes of a tour, or of a function of time, for so many seconds."""
    at = tour.at if isinstance(tour, Tour) else tour
    for number in range(int(seconds / every_s) + 1):
        if number and speed > 0.0:
            await asyncio.sleep(every_s / speed)
        yield at(number * every_s)
