"""The package extras, and which of them provides a missing module."""

import re
from importlib.metadata import requires, version

# Modules whose package has another name, or that come with another package.
PACKAGES = {"argon2": "argon2-cffi", "cryptography": "pyjwt", "jwt": "pyjwt", "llvmlite": "numba"}
# Extras for users, the smallest first; `spark` is an alias of `pipeline`.
EXTRAS = ("broker", "pipeline", "bench")
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+).*?(?:extra == ['\"]([a-z0-9]+)['\"])?$")


def packages() -> dict[str, set[str]]:
    """Return the packages of each extra, and under "" those that are always required."""
    found: dict[str, set[str]] = {"": set()}
    for line in requires("nearcast") or ():
        match = REQUIREMENT.match(line)
        assert match is not None
        if match[1] != "nearcast":
            found.setdefault(match[2] or "", set()).add(match[1])
    return found


def extra_of(module: str) -> str | None:
    """Return the extra that provides a module; None if none does."""
    name = module.partition(".")[0]
    known = packages()
    package = PACKAGES.get(name, name)
    return next((extra for extra in EXTRAS if package in known.get(extra, ())), None)


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra."""
    wheel = f"nearcast-{version('nearcast')}-py3-none-any.whl"
    return f"make setup in a checkout, or pip install '{wheel}[{extra}]'"
