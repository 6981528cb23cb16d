"""Names of a package that are loaded when they are first used.

They are listed once, in the stub of the package (`__init__.pyi`), which type checkers read too.
"""

from importlib.machinery import ModuleSpec


def homes_of(package: ModuleSpec) -> dict[str, str]:
    """Return the module of each name that the stub of a package lists."""
    # Packages may lie in a zip file, out of which their loader reads.
    stub: bytes = package.loader.get_data(f"{package.origin}i")  # type: ignore[union-attr]
    words = (line.split() for line in stub.decode().splitlines())
    return {line[-1]: line[1] for line in words if line[:1] == ["from"]}
