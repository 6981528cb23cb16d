"""Metrics and health of the data pipeline, for those of a broker.

Only the status file that the pipeline maintains is read; where and whether Spark runs does not
matter here.
"""

from datetime import UTC, datetime
from pathlib import Path

from nearcast.broker.operations.metrics import Health
from nearcast.pipeline.jobs.status import QueryStatus, figures, read_status


def pipeline_figures(data: Path) -> dict[str, float]:
    """Return the metrics of the pipeline of a data directory; one that never ran is not up."""
    status = read_status(data)
    return {"up": 0.0} if status is None else figures(status)


def pipeline_health(data: Path) -> Health:
    """Return the health of a pipeline that should run."""
    status = read_status(data)
    if status is None or not status.is_up:
        return Health("degraded", "the data pipeline does not run, or has just been started")
    # The reason is in the log and the status: it may contain details that are not public.
    failing = [_failing(query) for query in status.queries if query.failing_since is not None]
    waiting = [query.name for query in status.queries if query.state == "waiting"]
    if waiting:
        failing.append(f"to be started again: {', '.join(waiting)}")
    return Health("degraded", "; ".join(failing)) if failing else Health()


def _failing(query: QueryStatus) -> str:
    since = datetime.fromtimestamp(query.failing_since or 0.0, UTC)
    return f"{query.name} fails since {since:%Y-%m-%dT%H:%M:%SZ}: see nearcast pipeline status"
