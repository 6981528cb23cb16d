"""Seed E's experiment, small: what it promises holds, and its bytes are those of real frames."""

from functools import cache

import numpy as np
import pytest
from msgspec.structs import replace

from nearcast.core.propagation.chains.chain_plan import server_pushes
from nearcast.experiments.experiment_result import ExperimentResult
from nearcast.experiments.radiator import experiment
from nearcast.experiments.radiator.application import gathered
from nearcast.experiments.radiator.experiment import (
    RadiatorSettings,
    parts,
    prepare,
    run,
    volume,
)
from nearcast.experiments.radiator.propagation_run import Propagation, RunResult
from nearcast.wire.encoding.content_codings import decode_payload

SMALL = RadiatorSettings(
    clients=1_000, messages=100, percents=(1.0, 10.0), degrees=(1, 2), rate_hz=1.0
)


@cache
def result() -> ExperimentResult:
    return run(SMALL)[0]


@cache
def prepared() -> experiment.Prepared:
    return prepare(SMALL)


def ours(source: str, case: str) -> float:
    return next(row.ours for row in result().rows if (row.source, row.case) == (source, case))


def test_only_the_lag_of_single_messages_is_calibrated() -> None:
    assert ours("Table 2", "volume 1: average lag") == pytest.approx(42.0, rel=1e-3)
    assert ours("Table 2", "volume 20: average lag") < 42.0
    notes = [row.case for row in result().rows if "Calibrated" in row.note]
    assert notes == ["volume 1: average lag"]


def test_chains_send_few_bytes_more_than_naming_every_recipient_once() -> None:
    bound = ours("bytes", "volume 1, naming every recipient once: fewer than direct")
    assert ours("bytes", "volume 1, chains of 10 %: fewer than direct") > bound / 2
    best = [
        row for row in result().rows if row.source == "best in time" and "volume 50" in row.case
    ]
    assert best[0].ours > 300
    assert best[2].ours <= best[3].ours


def test_aggregates_are_nearly_as_small_as_the_whole_stream_at_once() -> None:
    for count in (20, 50):
        assert ours("compression", f"volume {count}: times the whole stream") < 1.5
    assert ours("compression", "volume 1: a message") <= 40


def test_every_encoded_message_decodes_to_what_was_gathered() -> None:
    all_ = prepared()
    for count, messages in all_.volumes.items():
        ready = list(gathered(all_.messages, volume(count)))
        assert sum(len(each.sent) for each in ready) == SMALL.messages
        dictionaries = {all_.dictionary.id: all_.dictionary.trained}
        for before, after in zip(ready, messages, strict=True):
            assert decode_payload(after.coding, after.payload, dictionaries) == before.payload


def test_the_server_pushes_as_often_as_the_formula_says() -> None:
    all_ = prepared()
    for percent in (0.05, 1.0, 7.0):
        found = all_.run(all_.volumes[50], Propagation(percent, 2))
        assert found.pushes == 2 * server_pushes(0, SMALL.clients, percent)


def test_what_leaves_over_time_adds_up() -> None:
    found: RunResult = prepared().run(prepared().plain, Propagation())
    assert sum(found.over_time(5.0)) * 5.0 == pytest.approx(found.application_bytes, rel=0.01)
    assert bool(np.all(np.diff(found.busy[:, 0]) >= 0))


def test_the_texts_chains_are_run_beside_whatever_trees_are_asked_for() -> None:
    settings = replace(SMALL, clients=200, messages=20, percents=(10.0,), degrees=(2, 4))
    told: list[str] = []
    found = run(settings, told.append)[0]
    cases = [row.case for row in found.rows if row.source == "Table 3"]
    assert cases == ["no chain: average lag", "chains of 10 %: average lag"]
    assert told == parts(settings)


def test_trees_are_run_together_as_one_by_one() -> None:
    all_, degrees = prepared(), (1, 2, 4)
    messages = all_.volumes[20]
    together = all_.run_degrees(messages, Propagation(5.0), degrees)
    for degree in degrees:
        alone = all_.run(messages, Propagation(5.0, degree))
        assert alone.mean_lag_s == together[degree].mean_lag_s
        assert alone.wire_bytes == together[degree].wire_bytes
    lags = [together[degree].mean_lag_s for degree in degrees]
    assert lags[0] > lags[1]


def test_the_same_seed_gives_the_same_rows() -> None:
    again = run(SMALL)[0]
    rows = [row for row in again.rows if row.source != "cost"]
    assert rows == [row for row in result().rows if row.source != "cost"]
