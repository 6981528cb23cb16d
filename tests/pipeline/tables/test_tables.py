"""Tables are Delta Lake tables: an epoch is one transaction, readers see whole versions."""

import json
import threading
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.tables.data_files import DayWriter, nullable, write_rows
from nearcast.pipeline.tables.tables import EpochId, Tables, drop_old

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_S = 86_400.0
SCHEMA = pa.schema([("node", pa.string()), ("time", pa.float64()), ("attributes", pa.string())])


def rows(*times: float | None) -> pa.Table:
    found = [{"node": f"n{time}", "time": time, "attributes": "{}"} for time in times]
    return pa.Table.from_pylist(found, schema=SCHEMA)


def append(tables: Tables, epoch: int, *times: float | None, query: str = "q 1") -> bool:
    return tables.append("contexts", rows(*times), EpochId(query, epoch))


def times(tables: Tables, name: str = "contexts") -> list[float | None]:
    found = [each for batch in tables.batches(name) for each in batch["time"].to_pylist()]
    return sorted(found, key=lambda each: (each is None, each))


def logged(tables: Tables, name: str = "contexts") -> str:
    """All that the log of a table has, as text."""
    log = Path(tables.uri(name)) / "_delta_log"
    return "".join(path.read_text() for path in sorted(log.glob("*.json")))


def test_where_nothing_was_written_there_is_nothing(tables: Tables) -> None:
    assert tables.statistics() == []
    assert tables.version("events") is None
    assert tables.newest("events") is None
    assert tables.written("events", "q") is None
    assert list(tables.batches("events")) == []
    assert tables.compact() == {}
    assert tables.vacuum() == 0


def test_an_epoch_that_is_written_again_is_there_once(
    spark: "SparkSession", tables: Tables
) -> None:
    assert append(tables, 7, 1.0, 2.0)
    assert append(tables, 8, 3.0)
    assert not append(tables, 7, 1.0, 2.0)
    frame = spark.createDataFrame(
        rows(4.0, 5.0).to_pandas(), "node string, time double, attributes string"
    )
    assert not tables.append("contexts", frame, EpochId("q 1", 8))
    assert tables.append("contexts", frame, EpochId("q 1", 9))
    assert tables.written("contexts", "q 1") == 9
    assert times(tables) == [1.0, 2.0, 3.0, 4.0, 5.0]
    # Another checkpoint of the query counts its epochs from 0.
    assert append(tables, 0, 6.0, query="q 2")
    (found,) = tables.statistics()
    assert (found.name, found.rows) == ("contexts", 6)


def test_rows_are_filed_by_their_utc_day(tables: Tables) -> None:
    append(tables, 0, 0.0, DAY_S - 0.001, DAY_S, 3 * DAY_S + 1, None, float("nan"))
    found = {each.day: (each.rows, each.low, each.high) for each in tables.files("contexts")}
    assert found[date(1970, 1, 1)][0] == 4
    assert found[date(1970, 1, 2)] == (1, DAY_S, DAY_S)
    assert found[date(1970, 1, 4)] == (1, 3 * DAY_S + 1, 3 * DAY_S + 1)
    assert sum(1 for each in times(tables) if each is None) == 1


def test_the_log_of_a_table_has_no_names_and_no_payloads(tables: Tables) -> None:
    append(tables, 0, 1.0)
    append(tables, 1, 2.0)
    tables.compact()
    assert "n1.0" not in logged(tables)
    assert '\\"time\\"' in logged(tables)
    assert any("n1.0" in str(batch.to_pylist()) for batch in tables.batches("contexts"))


def test_others_read_the_tables_too(spark: "SparkSession", tables: Tables) -> None:
    append(tables, 0, 1.0, DAY_S)
    append(tables, 1, 2.0)
    uri = tables.uri("contexts")
    assert sorted(DeltaTable(uri).to_pyarrow_table()["time"].to_pylist()) == [1.0, 2.0, DAY_S]
    files = DeltaTable(uri).file_uris()
    assert (
        spark.read.option("basePath", uri).parquet(*files).where("day = '1970-01-01'").count() == 2
    )
    own = tables.frame(spark, "contexts")
    assert own is not None
    assert sorted(row["time"] for row in own.collect()) == [1.0, 2.0, DAY_S]


def test_compacting_changes_no_row_and_goes_on_beside_writers(tables: Tables) -> None:
    for epoch in range(20):
        append(tables, epoch, float(epoch), DAY_S + epoch)
    before = times(tables)
    old = DeltaTable(tables.uri("contexts"))
    assert tables.compact() == {"contexts": 40}
    assert times(tables) == before
    assert [each.files for each in tables.statistics()] == [2]
    assert tables.written("contexts", "q 1") == 19
    # Whoever began to read before still can.
    assert old.to_pyarrow_table().num_rows == 40
    assert tables.compact() == {}

    other = Tables(Path(tables.uri("")).parent)
    append(tables, 20, 20.0)
    thread = threading.Thread(target=lambda: [append(other, n, float(n)) for n in range(21, 31)])
    thread.start()
    while thread.is_alive():
        tables.compact()
    thread.join()
    assert len(times(tables)) == 51
    assert tables.written("contexts", "q 1") == 30


def test_a_file_that_is_large_already_is_not_written_again(tables: Tables) -> None:
    tables.append("contexts", rows(*map(float, range(50_000))), EpochId("q", 0))
    (large,) = tables.files("contexts")
    for epoch in range(1, 5):
        append(tables, epoch, float(epoch))
    assert tables.compact(target_bytes=large.bytes) == {"contexts": 4}
    assert large.path in {each.path for each in tables.files("contexts")}
    assert tables.statistics()[0].files == 2


def test_vacuum_deletes_what_no_version_needs(tables: Tables) -> None:
    for epoch in range(3):
        append(tables, epoch, float(epoch))
    tables.compact()
    directory = Path(tables.uri("contexts")) / "day=1970-01-01"
    assert len(list(directory.iterdir())) == 4
    assert tables.vacuum() == 0
    assert tables.vacuum(history_s=0.0) == 3
    assert len(list(directory.iterdir())) == 1
    assert times(tables) == [0.0, 1.0, 2.0]


def test_files_that_were_never_committed_are_left_to_their_writer_for_a_day(
    tables: Tables,
) -> None:
    append(tables, 0, 0.0)
    (orphan,) = write_rows(tables.uri("contexts"), rows(5.0), SCHEMA, "time", "orphan")
    assert times(tables) == [0.0]
    tables.vacuum(history_s=0.0)
    assert (Path(tables.uri("contexts")) / orphan.path).exists()
    with tables.alone():
        tables.cut_history("contexts")
    assert not (Path(tables.uri("contexts")) / orphan.path).exists()
    assert times(tables) == [0.0]


def test_after_its_history_is_cut_a_table_begins_there_and_goes_on(tables: Tables) -> None:
    for epoch in range(5):
        append(tables, epoch, float(epoch))
    with tables.alone():
        tables.cut_history("contexts")
    versions = sorted((Path(tables.uri("contexts")) / "_delta_log").glob("*.json"))
    assert len(versions) <= 2
    assert not append(tables, 4, 4.0)
    assert append(tables, 5, 5.0)
    assert times(Tables(Path(tables.uri("")).parent)) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    with pytest.raises(DeltaError):
        DeltaTable(tables.uri("contexts"), version=2)


def test_an_erasure_waits_for_an_epoch_and_keeps_others_waiting(tables: Tables) -> None:
    order: list[str] = []
    begun = threading.Event()

    def erase() -> None:
        begun.set()
        with Tables(Path(tables.uri("")).parent).alone():
            order.append("erased")

    with tables.writing(), Tables(Path(tables.uri("")).parent).writing():
        thread = threading.Thread(target=erase)
        thread.start()
        begun.wait()
        thread.join(0.2)
        order.append("written")
    thread.join()
    assert order == ["written", "erased"]


def test_days_that_are_too_old_go(tables: Tables) -> None:
    append(tables, 0, 0.0, DAY_S, 2 * DAY_S, 3 * DAY_S)
    assert drop_old(tables, {"contexts": 1, "events": 3}, now=3 * DAY_S + 5) == 2
    assert times(tables) == [2 * DAY_S, 3 * DAY_S]
    assert drop_old(tables, {"contexts": 1}, now=3 * DAY_S + 5) == 0


def test_a_table_of_an_earlier_release_gets_new_columns(tables: Tables) -> None:
    append(tables, 0, 1.0)
    wider = rows(2.0).append_column("mood", pa.array(["good"]))
    tables.append("contexts", wider, EpochId("q", 1))
    append(tables, 2, 3.0)
    (found,) = [pa.concat_tables(tables.batches("contexts")).sort_by("time")]
    assert found["mood"].to_pylist() == [None, "good", None]


def test_an_epoch_is_read_as_it_was_before_it(spark: "SparkSession", tables: Tables) -> None:
    for epoch in range(3):
        append(tables, epoch, float(epoch))

    def before(epoch: int) -> list[float]:
        frame = tables.frame(spark, "contexts", before=EpochId("q 1", epoch))
        assert frame is not None
        return sorted(row["time"] for row in frame.collect())

    assert before(3) == [0.0, 1.0, 2.0]
    assert before(2) == [0.0, 1.0]
    assert before(0) == []
    late = tables.frame(spark, "contexts", since=1.5)
    assert late is not None
    assert [row["time"] for row in late.collect()] == [2.0]


def test_what_is_no_table_is_told(tmp_path: Path) -> None:
    log = tmp_path / "tables" / "contexts" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("nonsense")
    with pytest.raises(PipelineError, match="contexts"):
        Tables(tmp_path).version("contexts")


def test_a_writer_ends_large_files_and_opens_few(tables: Tables) -> None:
    tables.create("contexts", SCHEMA)
    writer = DayWriter(tables.uri("contexts"), nullable(SCHEMA), "time", "many")
    for day in range(40):
        writer.write(rows(day * DAY_S, (day + 1) * DAY_S))
    files = writer.close()
    assert sum(each.rows for each in files) == 80
    tables.commit("contexts", files)
    assert len(times(tables)) == 80
    assert json.loads(files[0].statistics("time"))["numRecords"] == files[0].rows
