"""Finding the Java that Spark runs on; the error names what to install."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from nearcast.pipeline.errors import JavaError

OLDEST = 17
USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
ADVICE = (
    f"install Java {OLDEST} or 21 (Debian and Ubuntu: apt install openjdk-{OLDEST}-jre-headless; "
    f"macOS: brew install openjdk@{OLDEST}) or set JAVA_HOME to where it is"
)
ANSWER_S = 30.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class Java(Struct, frozen=True):
    """An installed Java: its home, and its version."""

    home: Path
    version: int


def find_java() -> Java:
    """Return the first Java that is new enough: from JAVA_HOME, the path or the usual places.

    Raises `JavaError` if there is none. A JAVA_HOME that is set but unusable is an error too: it is
    an explicit choice, which another Java must not replace.
    """
    wanted = os.environ.get("JAVA_HOME")
    if wanted:
        version = version_of(Path(wanted))
        if version is None:
            raise JavaError(f"JAVA_HOME is {wanted}, where no Java is; {ADVICE}")
        if version < OLDEST:
            raise JavaError(
                f"JAVA_HOME is {wanted}, which is Java {version}; Spark needs {OLDEST} or newer: "
                f"{ADVICE}"
            )
        return Java(Path(wanted), version)
    too_old: list[Java] = []
    for home in _homes():
        version = version_of(home)
        if version is None:
            continue
        if version >= OLDEST:
            return Java(home, version)
        too_old.append(Java(home, version))
    if too_old:
        found = ", ".join(f"Java {java.version} in {java.home}" for java in too_old)
        raise JavaError(f"Spark needs Java {OLDEST} or newer, and there is only {found}; {ADVICE}")
    raise JavaError(f"Spark needs Java, and none was found; {ADVICE}")


def version_of(home: Path) -> int | None:
    """Return the version of the Java in a directory; None if it does not run."""
    try:
        ran = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(ran.stderr + ran.stdout)
    return int(found[1]) if found and ran.returncode == 0 else None


def _homes() -> Iterator[Path]:
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    for pattern in USUAL_PLACES:
        # The lowest version first, as far as names show: Spark is tested with those.
        yield from sorted(Path("/").glob(pattern.removeprefix("/")))
