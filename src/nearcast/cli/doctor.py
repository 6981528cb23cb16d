"""``nearcast doctor``: checks what is installed, and advises what to do.

It changes nothing unless asked to warm up. A missing requirement makes the exit code 1; what only
the pipeline, benchmarks and tests need is reported, without effect on the exit code.
"""

import json
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal

import typer
from msgspec import Struct, to_builtins
from rich.console import Console
from rich.table import Table

from nearcast import _warm_up
from nearcast.cli.extras import EXTRAS, how_to_install, packages
from nearcast.pipeline.errors import JavaError
from nearcast.pipeline.jobs.java import find_java

OLDEST_PYTHON = (3, 11)
CONSTRAINTS = Path(__file__).parents[3] / "constraints.txt"
PEERS = {
    "mosquitto": "its benchmarks and some tests are skipped; install mosquitto",
    "redis-server": "its benchmarks are skipped; install Redis",
    "postgres": "its benchmarks are skipped; install PostgreSQL with PostGIS",
}

CheckState = Literal["ok", "optional", "missing"]


class DoctorCheck(Struct, frozen=True):
    """The result of one check; `optional` means that it could be better."""

    what: str
    state: CheckState
    found: str
    advice: str = ""


def doctor(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
    warm_up: Annotated[
        bool, typer.Option("--warm-up", help="Compile the kernels first, if they changed.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="The broker's settings; by default nearcast.toml here.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The broker's data directory.")] = None,
) -> None:
    """Check what is installed and whether a broker could run here, and say what to do."""
    if warm_up:
        _warm_up.main()
    checks = [*examine(), *examine_broker(config, data)]
    if as_json:
        typer.echo(json.dumps([to_builtins(check) for check in checks], indent=2))
    else:
        Console().print(table(checks))
    if any(check.state == "missing" for check in checks):
        raise typer.Exit(1)


def examine() -> Iterator[DoctorCheck]:
    """Yield every check, the required ones first."""
    yield check_python(sys.version_info[:2])
    tested = tested_versions(CONSTRAINTS)
    known = packages()
    yield from (check_package(name, tested) for name in sorted(known.pop("")))
    if "numba" not in missing_packages(known["broker"]):
        yield check_kernels()
    seen: set[str] = set()
    for extra in (*EXTRAS, *sorted(known.keys() - set(EXTRAS))):
        yield from (check_package(name, tested, extra) for name in sorted(known[extra] - seen))
        seen |= known[extra]
    yield check_java()
    yield from (check_peer(program, advice) for program, advice in PEERS.items())


def examine_broker(config: Path | None, data: str | None) -> Iterator[DoctorCheck]:
    """Yield the checks of a broker's environment."""
    if missing_packages(packages()["broker"]):
        return
    # Not at the top: a plain client has no broker to check.
    from nearcast.cli.broker.broker_checks import broker_checks

    for finding in broker_checks(config, data):
        state: CheckState = "missing" if finding.fatal else "optional" if finding.advice else "ok"
        yield DoctorCheck(finding.what, state, finding.found, finding.advice)


def check_python(running: tuple[int, int]) -> DoctorCheck:
    """Check the version of Python."""
    if running >= OLDEST_PYTHON:
        return DoctorCheck("Python", "ok", platform.python_version())
    return DoctorCheck(
        "Python", "missing", platform.python_version(), "install Python 3.11 or newer"
    )


def check_package(name: str, tested: dict[str, str], extra: str = "") -> DoctorCheck:
    """Check that a package is installed, in the tested version."""
    try:
        found = version(name)
    except PackageNotFoundError:
        if not extra:
            return DoctorCheck(name, "missing", "not installed", "make setup")
        advice = "only tests need it"
        if extra in EXTRAS:
            advice = f"the {extra} does not run without: {how_to_install(extra)}"
        return DoctorCheck(name, "optional", "not installed", advice)
    wanted = tested.get(_normal(name), found)
    if found == wanted:
        return DoctorCheck(name, "ok", found)
    return DoctorCheck(name, "optional", found, f"tested with {wanted}: make setup")


def check_java() -> DoctorCheck:
    """Check for a Java version that the pipeline can use."""
    try:
        java = find_java()
    except JavaError as error:
        return DoctorCheck(
            "Java", "optional", "none for Spark", f"the pipeline does not run: {error}"
        )
    return DoctorCheck("Java", "ok", f"{java.version} in {java.home}")


def check_kernels() -> DoctorCheck:
    """Check that kernels are compiled."""
    if _warm_up.is_warm():
        return DoctorCheck("kernels", "ok", "compiled")
    advice = "they compile at first use, which takes a minute: nearcast doctor --warm-up"
    return DoctorCheck("kernels", "optional", "not compiled", advice)


def check_peer(program: str, advice: str) -> DoctorCheck:
    """Check for a program that benchmarks compare with."""
    found = shutil.which(program)
    if found is None:
        # Debian installs each version of the PostgreSQL servers separately, outside of the path.
        found = next(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{program}")), None)
    if found is None:
        return DoctorCheck(program, "optional", "not installed", advice)
    return DoctorCheck(program, "ok", found)


def tested_versions(constraints: Path) -> dict[str, str]:
    """Return the versions in a constraints file; empty if only the package is installed."""
    try:
        lines = constraints.read_text().splitlines()
    except OSError:
        return {}
    pins = (line.partition("==") for line in lines if "==" in line)
    return {_normal(name): pinned.strip() for name, _, pinned in pins}


def missing_packages(names: Iterable[str]) -> set[str]:
    """Return those of the packages that are not installed."""
    missing = set()
    for name in names:
        try:
            version(name)
        except PackageNotFoundError:
            missing.add(name)
    return missing


def table(checks: list[DoctorCheck]) -> Table:
    """Return the checks as a table for a terminal."""
    colours = {"ok": "green", "optional": "yellow", "missing": "red"}
    grid = Table("", "what", "found", "what to do", box=None, pad_edge=False)
    for check in checks:
        state = f"[{colours[check.state]}]{check.state}[/]"
        grid.add_row(state, check.what, check.found, check.advice)
    return grid


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
