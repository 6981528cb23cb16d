"""The program of a worker process, started by the pool: `python -m` with this module."""

import sys


def main() -> None:
    """Answer batches until there are no more."""
    # The few distances of scripts need no compiled kernels, whose import takes most of a second.
    sys.modules["numba"] = None  # type: ignore[assignment]  # makes an import fail
    from nearcast.placement.worker import Worker, confine

    confine()
    Worker(sys.stdin.buffer, sys.stdout.buffer).work()


if __name__ == "__main__":
    main()
