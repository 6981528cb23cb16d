"""What the data pipeline says of itself, for a broker's own figures and health.

Only the file is read that the pipeline keeps up to date; where and whether Spark runs does not
matter here.
"""

from pathlib import Path

from nearcast.broker.metrics import Health
from nearcast.pipeline.status import figures, read_status


def pipeline_figures(data: Path) -> dict[str, float]:
    """Return the figures of the pipeline of a data directory; one that never ran is not up."""
    status = read_status(data)
    return {"up": 0.0} if status is None else figures(status)


def pipeline_health(data: Path) -> Health:
    """Return how the pipeline is that should run."""
    status = read_status(data)
    if status is None or status.is_stale:
        return Health("degraded", "the data pipeline does not run, or has just been started")
    waiting = [query.name for query in status.queries if query.state != "running"]
    # Why is in the log: it may name what not everyone need know.
    return Health("degraded", f"to be started again: {', '.join(waiting)}") if waiting else Health()
