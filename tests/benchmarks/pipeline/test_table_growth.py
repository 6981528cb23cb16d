"""The benchmark of tables fills one, and finds all rows again."""

import json

from typer.testing import CliRunner

from nearcast.benchmarks.pipeline import table_growth
from nearcast.benchmarks.pipeline.table_growth import TableBenchSettings
from nearcast.cli.bench import app


def test_every_step_is_measured_with_the_size_of_the_table() -> None:
    chosen = TableBenchSettings(rows=60_000, epoch_rows=250)
    steps = table_growth.run(chosen, lambda what: None).steps
    assert [each.step for each in steps] == [
        "epoch", "epoch", "epoch", "epoch", "compaction", "vacuum", "reading all",
    ]  # fmt: skip
    assert steps[-1].table_rows == 60_000
    assert steps[4].files < steps[3].files
    assert all(each.cpu_ms > 0.0 and each.memory_mb > 1.0 for each in steps)


def test_the_command_prints_all_figures() -> None:
    ran = CliRunner().invoke(app, ["tables", "--rows", "3k", "--epoch-rows", "100", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert found["settings"]["rows"] == 3_000
    assert found["steps"][-1]["table_rows"] == 3_000
