"""A segment explains itself, and no damage to it passes for rows."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.store import CorruptError, RowBuffer, StoreError, read_segment, rows_of
from nearcast.store.log.segments import describe, numbers_of, segment_name, write_segment
from tests.support.logs.store_rows import rows


def test_a_segment_says_what_it_holds(tmp_path: Path) -> None:
    written = write_segment(tmp_path, 42, RowBuffer.of(rows(7, 11)))
    assert written.name == "00000042.parquet"
    assert describe(tmp_path / written.name) == written
    (batch,) = read_segment(tmp_path, written, first_seq=9)
    assert list(rows_of(batch)) == rows(9, 11)


@given(st.integers(1, 10**9), st.integers(0, 10**9))
def test_a_name_says_its_numbers(first: int, more: int) -> None:
    assert numbers_of(segment_name(first, first + more)) == (first, first + more)


@pytest.mark.parametrize(
    "name",
    ["1.parquet", "_00000001.parquet.corrupt", "00000001-00000001.parquet", "_manifest.json",
     "000000001.parquet", "00000001.parquet.tmp"],
)  # fmt: skip
def test_another_name_is_no_segment(name: str) -> None:
    assert numbers_of(name) is None


def test_a_segment_under_another_number_is_refused(tmp_path: Path) -> None:
    written = write_segment(tmp_path, 1, RowBuffer.of(rows(1, 3)))
    (tmp_path / written.name).rename(tmp_path / "00000002.parquet")
    with pytest.raises(CorruptError, match="holds segments 1 to 1"):
        describe(tmp_path / "00000002.parquet")


@settings(max_examples=80)
@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255), st.none() | st.floats(0, 1))
@example(0.0, 1, 0.0)
@example(0.4661960632709666, 1, None)
def test_no_damage_passes_for_rows(place: float, flip: int, kept: float | None) -> None:
    with TemporaryDirectory() as directory:
        written = write_segment(Path(directory), 1, RowBuffer.of(rows(1, 20)))
        path = Path(directory) / written.name
        data = bytearray(path.read_bytes())
        if kept is not None and kept < 1.0:
            data = data[: int(len(data) * kept)]
        if data:
            data[int(len(data) * place)] ^= flip
        path.write_bytes(data)
        with pytest.raises(CorruptError):
            list(read_segment(Path(directory), written))
        try:
            found = describe(path)
        except StoreError:
            return
        # Without the manifest's checksum some bytes of the footer mean nothing to anybody.
        assert (found.rows, found.first_seq, found.last_seq) == (20, 1, 20)
