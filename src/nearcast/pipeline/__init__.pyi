"""The names for programs of one's own: `__init__.py` loads them when they are first used."""

from nearcast.pipeline.jobs.spark_session import SparkSettings as SparkSettings
from nearcast.pipeline.jobs.spark_session import session as session
from nearcast.pipeline.sink.data_sink import hand_over as hand_over
from nearcast.pipeline.sink.sink_rows import SINK_SCHEMA as SINK_SCHEMA
from nearcast.pipeline.source.data_source import NearcastDataSource as NearcastDataSource
from nearcast.pipeline.source.track_import import import_tracks as import_tracks
