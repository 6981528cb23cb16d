"""The event log: damaged files, and rows with hostile fields.

Of damaged files a reader returns the rows that were written, or says which are missing, or raises
an error of the store: never other rows, and never fewer without saying so. Rows with hostile fields
are usable, or refused by name; the player applies the rest.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from unittest.mock import patch

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.pipeline.decide.player import Player
from nearcast.store import Gap, LogReader, Row, StoreError, rows_of
from nearcast.store.log import log_reader
from nearcast.store.log.log_recovery import recover
from nearcast.store.log.manifest import LINES, WHOLE
from nearcast.store.log.segments import batch_of, segment_name
from nearcast.store.rows.row_kinds import KINDS
from nearcast.testing import World
from nearcast.testing.world import IN_MEMORY
from tests.support.fuzzing.fuzz_target import FuzzTarget
from tests.support.fuzzing.mutations import (
    HOSTILE_NUMBERS,
    HOSTILE_TEXTS,
    mutated_bytes,
    mutated_text,
)
from tests.support.logs.broker_log import write_log
from tests.support.logs.recorded_life import log_of_a_life

BROKER = "broker"
SEGMENTS, ROWS_PER_SEGMENT = 4, 12
FLIP, CUT, SWAP, LOSE, ZERO, MUTATE = "flip", "cut", "swap", "lose", "zero", "mutate"


@cache
def recorded_rows() -> tuple[Row, ...]:
    """Return rows of all that happens in a random life."""
    with World("rows to fuzz") as world:
        return tuple(log_of_a_life(world, 40))


class Damage(Struct, frozen=True, array_like=True):
    """What happens to one file: `how`, at a part of its length, with some bytes."""

    file: str
    how: str
    at: float = 0.0
    data: bytes = b""


FILE_EXAMPLES = {
    "a damaged line hid all later ones": (Damage(LINES, FLIP, 0.3, b"\x04"),),
    "a flipped bit in the name of a column": (
        Damage(WHOLE, FLIP, 0.17, b"\x80"),
        Damage(segment_name(1, 1), FLIP, 0.49343015693880243, b"\x01"),
    ),
    # Bytes of numbers: segments were skipped, dropped or read for ever.
    **{
        f"a flipped bit in the manifest at {at}": (Damage(LINES, FLIP, at / 50, b"\x08"),)
        for at in range(50)
    },
}


class LogFilesTarget(FuzzTarget[tuple[Damage, ...]]):
    """Bits flipped, files cut, swapped and lost."""

    name = "log-files"
    suite_cases = 250
    examples = FILE_EXAMPLES

    @contextmanager
    def opened(self) -> Iterator[None]:
        memory = IN_MEMORY if IN_MEMORY.is_dir() else None
        self._folder = Path(tempfile.mkdtemp(prefix="nearcast-fuzz-", dir=memory))
        rows = recorded_rows()[: SEGMENTS * ROWS_PER_SEGMENT]
        self._rows = {row.seq: row for row in rows}
        self._log = write_log(self._folder / "whole", BROKER, rows, ROWS_PER_SEGMENT)
        try:
            # A reader waits in case a file is being replaced: here nobody replaces one.
            with patch.object(log_reader, "RETRY_S", 0.0):
                yield
        finally:
            shutil.rmtree(self._folder)

    def generate(self, random: Random) -> tuple[Damage, ...]:
        return tuple(_damage(random) for _ in range(random.choice((1, 1, 2, 4))))

    def check(self, case: tuple[Damage, ...]) -> None:
        self._end_is_damaged = any(each.file in (LINES, WHOLE) for each in case)
        damaged = self._folder / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(self._log, damaged)
        for each in case:
            _inflict(damaged, each)
        # As another process sees it, then as the broker that opens it.
        self._check_rows(damaged)
        try:
            recover(damaged, BROKER, None)
        except StoreError as error:
            str(error).encode()
            return
        self._check_rows(damaged)

    def _check_rows(self, log: Path) -> None:
        found: list[int] = []
        try:
            for part in LogReader(log).read():
                if isinstance(part, Gap):
                    assert part.reason
                    found += range(part.first_seq, part.last_seq + 1)
                else:
                    rows = list(rows_of(part))
                    assert rows == [self._rows[row.seq] for row in rows], "other rows"
                    found += [row.seq for row in rows]
        except StoreError as error:
            str(error).encode()
            return
        assert found == sorted(set(found)), "rows come in order and once"
        # The end of a log is what its manifest says, unless the broker's state knows of more.
        end = max(found, default=0) if self._end_is_damaged else max(self._rows)
        missing = [seq for seq in self._rows if seq <= end and seq not in found]
        assert not missing, f"rows {missing} are missing, and nothing says so"


_EVENT = Row(BROKER, 1, "event", 1e9, 1, "id", "s/1", "a", 1e9, 53.3, -6.2)
ROW_EXAMPLES = {
    "an event valid for an object": (replace(_EVENT, data='{"valid_s":{}}'),),
    "an event whose box has three sides": (replace(_EVENT, data='{"to":{"bbox":[1,2,3]}}'),),
    "data nested as deep as JSON goes": (replace(_EVENT, data="[" * 1_200),),
    "a position that is no number": (replace(_EVENT, lat=float("nan")),),
    "an event without end": (replace(_EVENT, time=float("inf")),),
    "a patch that is null": (Row(BROKER, 1, "context", 1e9, node="a", data='{"patch":null}'),),
    "a patch that is a list": (Row(BROKER, 1, "context", 1e9, node="a", data='{"patch":[1]}'),),
    "a gap that says nothing": (Row(BROKER, 1, "gap", 1e9, data="{}"),),
    "a restart with null subjects": (Row(BROKER, 1, "restart", 1e9, data='{"elsewhere":null}'),),
}


class LogRowsTarget(FuzzTarget[tuple[Row, ...]]):
    """Rows of a life of which some have hostile fields, through the columns and the player."""

    name = "log-rows"
    suite_cases = 300
    examples = ROW_EXAMPLES

    def generate(self, random: Random) -> tuple[Row, ...]:
        rows = recorded_rows()
        first = random.randrange(len(rows))
        chosen = rows[first : first + random.choice((5, 20, 60))]
        share = random.choice((0.1, 0.3))
        return tuple(_hostile(random, row) if random.random() < share else row for row in chosen)

    def check(self, case: tuple[Row, ...]) -> None:
        try:
            batch = batch_of(case)
        except (StoreError, UnicodeEncodeError):
            return
        assert repr(tuple(rows_of(batch))) == repr(case), "NaN is unlike itself"
        player, columns = Player(BROKER), Player(BROKER)
        by_row = self._decided(lambda: list(player.decide(case)))
        by_column = self._decided(lambda: list(columns.decide_columns([batch])))
        assert by_row == by_column

    def _decided(self, decide: Callable[[], object]) -> str:
        try:
            decide()
        except StoreError as error:
            return type(error).__name__
        return ""


def _damage(random: Random) -> Damage:
    files = [segment_name(number, number) for number in range(1, SEGMENTS + 1)]
    file = random.choice((*files, *files, LINES, WHOLE))
    how = random.choice((FLIP, FLIP, FLIP, CUT, SWAP, LOSE, ZERO, MUTATE))
    return Damage(
        file,
        how,
        random.random(),
        bytes([1 << random.randrange(8)]),
    )


def _inflict(log: Path, damage: Damage) -> None:
    path = log / damage.file
    if not path.exists():
        return
    data = path.read_bytes()
    at = int(damage.at * len(data))
    match damage.how:
        case "flip" if data:
            data = data[:at] + bytes([data[at] ^ damage.data[0]]) + data[at + 1 :]
        case "cut":
            data = data[:at]
        case "zero":
            data = data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :]
        case "mutate":
            data = mutated_bytes(Random(damage.at), data)
        case "swap":
            other = log / segment_name(1 + at % SEGMENTS, 1 + at % SEGMENTS)
            if other.exists():
                path.write_bytes(other.read_bytes())
                other.write_bytes(data)
            return
        case "lose":
            path.unlink()
            return
    path.write_bytes(data)


def _hostile(random: Random, row: Row) -> Row:
    """Return a row with one to three fields changed."""
    for _ in range(random.randint(1, 3)):
        field, value = random.choice(_changes(random, row))
        row = replace(row, **{field: value})
    return row


def _changes(random: Random, row: Row) -> list[tuple[str, object]]:
    text = random.choice((None, *HOSTILE_TEXTS))
    number = random.choice((None, 0.0, -1.0, 91.0, 1e300, float("inf"), float("nan"), 5e-324))
    return [
        ("kind", random.choice((*KINDS, "info.new", row.kind))),
        ("schema", random.choice((0, 1, 1, 2, -1))),
        ("event_id", text),
        ("subject", text),
        ("publisher", text),
        ("node", text),
        ("time", number),
        ("lat", number),
        ("lon", number),
        ("properties", random.choice(((), (("a", "b"),), (("", "é"), ("nc-x", "1"))))),
        ("payload", random.choice((None, b"", b"{", b'{"speed": 60}', b"[" * 1_200, b"\xff"))),
        ("headers", random.choice((None, b"", b"\x02\0\0", b"\x26\xff", random.randbytes(9)))),
        ("data", _data(random, row.data)),
        ("data", _data(random, row.data)),
    ]


def _data(random: Random, data: str) -> str:
    words = ("null", "{", "}", "[", "]", "1e400", '"x"', "true", '"op"', '"circle"', "-1")
    if random.random() < 0.3:
        return random.choice(("", "null", "[]", "{}", "[" * 1_200, '{"to": 5}', '"x"'))
    try:
        members = msgspec.json.decode(data, type=dict[str, object])
    except msgspec.MsgspecError:
        return data
    if members and random.random() < 0.6:
        name = random.choice(list(members))
        values: tuple[object, ...] = (None, 5, -1, "x", [], {}, [[1]], {"x": 1}, True, 1e308)
        members[name] = random.choice((*values, random.choice(HOSTILE_TEXTS)))
        return msgspec.json.encode(members).decode()
    if random.random() < 0.3:
        return data.replace("1", random.choice(HOSTILE_NUMBERS), 1)
    return mutated_text(random, data, words)
