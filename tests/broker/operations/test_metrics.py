"""Metrics: every figure has its name and kind, and one part that fails hides no other."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from nearcast.broker.operations.metrics import Figures, Metrics, TickDurations, flat
from nearcast.store.store import Store


def samples(metrics: Metrics) -> dict[str, float]:
    text, _ = metrics.text()
    return {
        sample.name + "".join(f"[{label}]" for label in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def kinds(metrics: Metrics) -> dict[str, tuple[str, str]]:
    text, _ = metrics.text()
    return {
        family.name: (family.type, family.documentation)
        for family in text_string_to_metric_families(text.decode())
    }


def test_figures_are_named_by_source_and_are_those_of_the_moment() -> None:
    figures = {"connections": 3, "received_total": 10}
    metrics = Metrics({"hub": lambda: figures})
    assert samples(metrics)["nearcast_hub_connections"] == 3
    figures["connections"] = 4
    found = samples(metrics)
    assert found["nearcast_hub_connections"] == 4
    assert found["nearcast_hub_received_total"] == 10


def test_what_only_grows_is_a_counter_and_known_figures_are_explained() -> None:
    found = kinds(Metrics({"hub": lambda: {"connections": 1, "received_total": 1, "odd name": 1}}))
    assert found["nearcast_hub_connections"] == ("gauge", "Clients that are connected.")
    assert found["nearcast_hub_received"] == ("counter", "Hub received total.")
    assert found["nearcast_hub_odd_name"][0] == "gauge"


def test_the_statistics_of_a_real_store_are_figures(tmp_path: Path) -> None:
    store = Store(tmp_path, "local")
    try:
        metrics = Metrics({"store": store.statistics})
        found = samples(metrics)
        explained = kinds(metrics)
    finally:
        store.close()
    assert found["nearcast_store_state_sessions"] == 0
    assert found["nearcast_store_log_followed"] == 0
    assert found["nearcast_source_up[store]"] == 1
    assert explained["nearcast_store_state_wal_bytes"][1] == "Size of the state's write-ahead log."


def test_a_source_that_fails_is_told_and_hides_no_other() -> None:
    def broken() -> dict[str, float]:
        raise OSError("no disk")

    sources: dict[str, Callable[[], Figures]] = {"store": broken, "hub": lambda: {"sessions": 2}}
    metrics = Metrics(sources)
    found = samples(metrics)
    assert found["nearcast_source_up[store]"] == 0
    assert found["nearcast_source_up[hub]"] == 1
    assert found["nearcast_hub_sessions"] == 2
    assert metrics.statistics() == {"store": None, "hub": {"sessions": 2}}


def test_the_process_is_told_too_and_the_registry_of_others_is_left_alone() -> None:
    metrics = Metrics({})
    found = samples(metrics)
    assert any(name.startswith("python_info") for name in found)
    if Path("/proc/self/stat").exists():
        assert found["process_resident_memory_bytes"] > 0
    assert REGISTRY.get_sample_value("nearcast_tick_duration_seconds_count") is None
    samples(Metrics({}))


def test_structs_and_parts_inside_are_flattened() -> None:
    class Inner(Struct):
        rows: int
        followed: bool

    class Outer(Struct):
        log: Inner
        size: float

    assert flat(Outer(Inner(3, True), 2.5)) == {"log_rows": 3, "log_followed": 1, "size": 2.5}


def test_ticks_are_counted_in_buckets_up_to_their_bounds() -> None:
    metrics = Metrics({})
    for duration in (0.0, 0.001, 0.001_1, 3.0):
        metrics.ticks.feed(duration)
    found = samples(metrics)
    name = "nearcast_tick_duration_seconds"
    assert found[f"{name}_bucket[0.0005]"] == 1
    assert found[f"{name}_bucket[0.001]"] == 2
    assert found[f"{name}_bucket[0.0025]"] == 3
    assert found[f"{name}_bucket[2.5]"] == 3
    assert found[f"{name}_bucket[+Inf]"] == 4
    assert found[f"{name}_count"] == 4
    assert found[f"{name}_sum"] == pytest.approx(3.002_1)


@given(
    bounds=st.lists(st.floats(0, 10), min_size=1, max_size=6, unique=True).map(sorted),
    durations=st.lists(st.floats(0, 20), max_size=30),
)
def test_a_bucket_holds_all_that_are_not_above_its_bound(
    bounds: list[float], durations: list[float]
) -> None:
    ticks = TickDurations(bounds)
    for duration in durations:
        ticks.feed(duration)
    found = {
        sample.labels["le"]: sample.value
        for sample in ticks.family().samples
        if sample.name.endswith("_bucket")
    }
    assert found == {
        "+Inf" if math.isinf(bound) else repr(bound): sum(one <= bound for one in durations)
        for bound in (*bounds, math.inf)
    }


def test_openmetrics_is_spoken_with_those_who_ask_for_it() -> None:
    metrics = Metrics({"hub": lambda: {"received_total": 1}})
    text, content_type = metrics.text("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")
    assert metrics.text("*/*")[1].startswith("text/plain")
