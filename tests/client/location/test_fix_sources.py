import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nearcast.client.errors import ConnectionLostError
from nearcast.client.location.fix_sources import (
    as_they_come,
    gpsd,
    nmea,
    read_gpsd_report,
    recorded,
    simulated,
)
from nearcast.client.location.nmea import checksum, read_sentence
from nearcast.core.model import Position
from nearcast.simulation.movement.movement import tour


def sentence(body: str) -> str:
    return f"${body}*{checksum(body):02X}\r\n"


RMC = "GPRMC,123519.00,A,5320.988,N,00615.618,W,022.4,084.4,230394,003.1,W"
GGA = "GPGGA,123520.00,5321.000,N,00615.600,W,1,08,0.9,545.4,M,46.9,M,,"
GLL = "GNGLL,5321.012,N,00615.582,W,123521.00,A,D"


def test_sentences_that_tell_a_fix_are_read() -> None:
    found = [read_sentence(sentence(each)) for each in (RMC, GGA, GLL)]
    assert [each.time_s for each in found if each] == [45_319.0, 45_320.0, 45_321.0]
    first = found[0]
    assert first is not None
    assert first.position.lat == pytest.approx(53.3498)
    assert first.position.lon == pytest.approx(-6.2603)


@pytest.mark.parametrize(
    "line",
    [
        "", "$", "$GPRMC", "nonsense", sentence(RMC).replace("988", "989"),
        sentence(RMC.replace(",A,", ",V,")), sentence(GGA.replace(",1,", ",0,")),
        sentence(RMC.replace("5320.988", "5360.988")), sentence(RMC.replace("5320.988", "9920.0")),
        sentence(RMC.replace(",N,", ",X,")), sentence("GPGSV,2,1,08,01,40,083,46"),
        sentence(RMC) * 10, "$GPRMC,é,A,1,N,1,E*00",
    ],
)  # fmt: skip
def test_what_has_no_fix_is_left_out(line: str) -> None:
    assert read_sentence(line) is None


def test_reports_of_gpsd_are_read() -> None:
    assert read_gpsd_report(b'{"class":"TPV","mode":3,"lat":53.35,"lon":-6.26}\n') == Position(
        53.35, -6.26
    )
    for line in (
        b'{"class":"TPV","mode":1}', b'{"class":"SKY"}', b"{", b"[]", b"\xff",
        b'{"class":"TPV","mode":3,"lat":91,"lon":0}', b'{"class":"TPV","mode":"3"}',
    ):  # fmt: skip
        assert read_gpsd_report(line) is None


async def all_of(source: AsyncIterator[object]) -> list[object]:
    return [each async for each in source]


def test_a_file_of_sentences_is_replayed(tmp_path: Path) -> None:
    file = tmp_path / "track.nmea"
    # Two sentences tell of one fix.
    file.write_text(sentence(RMC) + sentence(GGA.replace("520.00", "519.00")) + sentence(GGA))
    found = asyncio.run(all_of(nmea(file, speed=0)))
    assert len(found) == 2


async def from_gpsd() -> list[object]:
    lines = [b'{"class":"VERSION"}', b'{"class":"TPV","mode":3,"lat":53.35,"lon":-6.26}', b"?"]
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"\n".join(lines) + b"\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        found = await all_of(gpsd("127.0.0.1", server.sockets[0].getsockname()[1]))
    assert asked == [b'?WATCH={"enable":true,"json":true}\n']
    return found


def test_gpsd_is_asked_and_its_fixes_are_taken() -> None:
    assert asyncio.run(from_gpsd()) == [Position(53.35, -6.26)]


def test_without_a_gpsd_it_is_said_how_to_start_one() -> None:
    with pytest.raises(ConnectionLostError, match="gpsd -N"):
        asyncio.run(all_of(gpsd("127.0.0.1", 1)))


def test_tracks_are_replayed_and_simulated() -> None:
    fixes = [(0.0, (53.35, -6.26)), (100.0, (53.36, -6.26))]
    assert asyncio.run(all_of(recorded(fixes, speed=0))) == [(53.35, -6.26), (53.36, -6.26)]
    there = tour([Position(53.35, -6.26), Position(53.36, -6.26)], 10.0)
    found = asyncio.run(all_of(simulated(there, seconds=3, speed=0)))
    assert found == [there.at(float(second)) for second in range(4)]
    assert asyncio.run(all_of(as_they_come([(1.0, 2.0)]))) == [(1.0, 2.0)]
