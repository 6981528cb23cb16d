"""The data pipeline on Spark: what all brokers recorded, as tables and as events for people.

The names for programs of your own, loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nearcast.pipeline.jobs.spark_session import SparkSettings, session
    from nearcast.pipeline.sink.data_sink import hand_over
    from nearcast.pipeline.sink.sink_rows import SINK_SCHEMA
    from nearcast.pipeline.source.data_source import NearcastDataSource
    from nearcast.pipeline.source.track_import import import_tracks

__all__ = [
    "SINK_SCHEMA",
    "NearcastDataSource",
    "SparkSettings",
    "hand_over",
    "import_tracks",
    "session",
]

_HOME = {
    "SINK_SCHEMA": "sink.sink_rows",
    "NearcastDataSource": "source.data_source",
    "SparkSettings": "jobs.spark_session",
    "hand_over": "sink.data_sink",
    "import_tracks": "source.track_import",
    "session": "jobs.spark_session",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
