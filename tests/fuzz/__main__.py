"""Fuzz for minutes with a fresh seed: `python -m tests.fuzz [TARGET …]`, or `make fuzz`.

Each target gets an equal share of the time. A failure is printed with its seed and its reduced
case, the other targets go on, and the exit code is 1. A case that takes longer than `HANG_S` is a
failure too: nothing that a client sends may keep a broker busy for so long.
"""

import argparse
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tests.fuzz.fuzz_targets import TARGETS
from tests.support.fuzzing.fuzz_target import Failure, FuzzTarget, search

HANG_S = 60.0


class HangError(Exception):
    """A case that is still being checked after `HANG_S`."""


def main(arguments: Sequence[str]) -> int:
    """Fuzz as the arguments and the environment say, and return the exit code."""
    chosen = _parser().parse_args(arguments)
    unknown = set(chosen.targets) - set(TARGETS)
    if unknown:
        sys.stderr.write(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}\n")
        return 2
    targets = [TARGETS[name] for name in chosen.targets or TARGETS]
    console = Console()
    console.print(f"seed {chosen.seed}, {chosen.seconds:g} s for {len(targets)} targets")
    signal.signal(signal.SIGALRM, _hang)
    failures = 0
    with _progress(console) as progress:
        for target in targets:
            bar = progress.add_task(target.name, total=chosen.seconds / len(targets), cases=0)

            def show(cases: int, passed_s: float, bar: TaskID = bar) -> None:
                progress.update(bar, completed=passed_s, cases=cases)

            failure = _fuzz(target, chosen.seed, chosen.case, chosen.seconds / len(targets), show)
            told = f"{target.name}: {progress.tasks[bar].fields['cases']} cases"
            if failure is not None:
                failures += 1
                told = str(failure)
            if failure is not None or not console.is_terminal:
                console.print(told, markup=False, highlight=False, soft_wrap=True)
    console.print(f"{failures} of {len(targets)} targets failed with seed {chosen.seed}")
    return 1 if failures else 0


def _fuzz(
    target: FuzzTarget[Any],
    seed: int,
    only: int | None,
    seconds: float,
    show: Callable[[int, float], None],
) -> Failure[Any] | None:
    """Check cases of a target for some seconds, or only one."""
    began = time.monotonic()

    def checked(number: int) -> bool:
        passed_s = time.monotonic() - began
        show(number + 1, passed_s)
        signal.setitimer(signal.ITIMER_REAL, HANG_S)
        return passed_s < seconds

    with target.opened():
        signal.setitimer(signal.ITIMER_REAL, HANG_S)
        try:
            return search(target, seed, count() if only is None else (only,), checked)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)


def _hang(number: int, frame: FrameType | None) -> None:
    # Reducing a case that hangs checks it again and again: each is stopped likewise.
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    raise HangError(f"still not done after {HANG_S:g} s")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:20}"),
        BarColumn(),
        TextColumn("{task.fields[cases]} cases"),
        TimeRemainingColumn(),
        console=console,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all if none is named")
    parser.add_argument(
        "--seconds",
        type=float,
        default=float(os.environ.get("NEARCAST_FUZZ_SECONDS") or 300.0),
        help="for all targets together (NEARCAST_FUZZ_SECONDS)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=int(os.environ.get("NEARCAST_FUZZ_SEED") or secrets.randbelow(1 << 31)),
        help="a fresh one if none is given (NEARCAST_FUZZ_SEED)",
    )
    parser.add_argument("--case", type=int, help="check only this case")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
