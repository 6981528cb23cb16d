"""The configuration of the pipeline, as settings of the pipeline and of Spark."""

from nearcast.broker.config.settings import Settings
from nearcast.core.gathering import parse_rules
from nearcast.core.relationships import MeetingSettings, TrackSettings, TrafficSettings
from nearcast.pipeline.jobs.queries import PipelineSettings
from nearcast.pipeline.jobs.spark_session import SparkSettings
from nearcast.pipeline.movement.movement_settings import MovementSettings
from nearcast.store.file_access import file_access

MASK = "spark.hadoop.fs.permissions.umask-mode"
AWAITED_S, UNAWAITED_S = 0.5, 10.0
"""How often tables are written: if clients wait for decisions of the pipeline, and if not."""


def spark_settings(settings: Settings, *, brisk: bool = False) -> SparkSettings:
    """Return the settings of Spark; `brisk` for small batches or a short history."""
    chosen = settings.pipeline
    return SparkSettings(
        master=chosen.master,
        shuffle_partitions=chosen.shuffle_partitions,
        driver_memory=chosen.memory,
        brisk=brisk,
        # Hadoop sets file modes by its own umask.
        conf={MASK: f"{file_access(settings.data.group).umask:03o}", **settings.spark},
    )


def pipeline_settings(settings: Settings) -> PipelineSettings:
    """Return the settings of the pipeline."""
    chosen = settings.pipeline
    silent_s = chosen.lateness_s + chosen.encounters_fresh_s
    movement = MovementSettings(
        tracks=TrackSettings(forget_s=max(TrackSettings().forget_s, 2 * silent_s)),
        meetings=MeetingSettings(chosen.encounters_m, chosen.encounters_fresh_s),
        traffic=TrafficSettings(chosen.traffic_cell_m, chosen.traffic_window_s, chosen.hazards),
        lateness_s=chosen.lateness_s,
    )
    return PipelineSettings(
        data=settings.node.data,
        storage=settings.data.storage,
        tables=settings.tables,
        keep_days={str(name): days for name, days in settings.keep_days.items()},
        rules=parse_rules(settings.aggregates),
        movement=movement if chosen.encounters_m else None,
        lateness_s=chosen.lateness_s,
        max_rows=chosen.max_rows,
        decide_shards=chosen.decide_shards,
        tables_s=AWAITED_S if "spark" in settings.decide.values() else UNAWAITED_S,
        backlog_bytes=chosen.backlog_mb << 20,
        backlog_full=chosen.backlog_full,
    )
