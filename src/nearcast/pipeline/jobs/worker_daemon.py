"""What Spark's Python workers are forked from: everything that they need is already there.

Spark forks a worker for each task that runs beside others, and each would import for itself what
all of them use; that is most of what a small batch costs at first. Run by Spark, in the place of
its own `pyspark.daemon`.
"""

import importlib
import sys

from pyspark import daemon

USED_BY_TASKS = (
    "pandas",
    "pyarrow.parquet",
    "pyspark.worker",
    "nearcast.pipeline.decide.decisions",
    "nearcast.pipeline.gather.aggregates",
    "nearcast.pipeline.movement.movement_query",
    "nearcast.pipeline.sink.data_sink",
)


def main() -> None:
    """Import what tasks use, and fork a worker for whoever asks."""
    # Workers of another kind plan; they are few and need little.
    if sys.argv[1:] in ([], ["pyspark.worker"]):
        for name in USED_BY_TASKS:
            importlib.import_module(name)
    daemon.manager()


if __name__ == "__main__":
    main()
