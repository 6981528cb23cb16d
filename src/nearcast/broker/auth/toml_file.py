"""TOML files written by hand: every error names the file and the line."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

from nearcast.broker.auth.errors import AuthError
from nearcast.core.model.errors import did_you_mean

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


class TomlFile:
    """The tables of a file, with their line numbers."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise AuthError(f"{path}:{line}: this is not UTF-8") from None
        try:
            self.table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = _AT_LINE.search(str(error))
            place = f"{path}:{found[1]}" if found else str(path)
            raise AuthError(f"{place}: {_AT_LINE.sub('', str(error))}") from None
        except RecursionError:
            raise AuthError(f"{path}: it is nested too deeply") from None
        self._lines = text.splitlines()

    def tables(self, name: str) -> list[dict[str, object]]:
        """Return the tables `[[name]]`, or raise `AuthError` if `name` is something else."""
        found = self.table.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise AuthError(f"{self.place(name)}: {name} is written as [[{name}]], once for each")
        return found

    def place(self, key: str) -> str:
        """Return the file and line of a top-level key."""
        return self._named(self._find(0, len(self._lines), key), "")

    def place_of(self, name: str, at: int, key: str | None = None) -> str:
        """Return the file and line of table number `at`, or of a key in it."""
        header = re.compile(rf"\s*\[\[\s*[\"']?{re.escape(name)}[\"']?\s*\]\]\s*(#.*)?")
        starts = [n for n, line in enumerate(self._lines) if header.fullmatch(line)]
        # Written in another form, or inside a multi-line string: the lines are unknown.
        if len(starts) != len(self.tables(name)):
            return self._named(None, f"{name} {at + 1}")
        end = starts[at + 1] if at + 1 < len(starts) else len(self._lines)
        line = None if key is None else self._find(starts[at] + 1, end, key)
        return self._named(starts[at] if line is None else line, "")

    def unknown(self, table: Iterable[str], known: tuple[str, ...]) -> list[tuple[str, str]]:
        """Return the unknown keys of a table, each with a message."""
        return [
            (
                key,
                f"{key} means nothing here; there is {', '.join(known)}{did_you_mean(key, known)}",
            )
            for key in table
            if key not in known
        ]

    def _find(self, start: int, end: int, key: str) -> int | None:
        begins = re.compile(rf"\s*(\[+\s*)?[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
        return next((n for n in range(start, end) if begins.match(self._lines[n])), None)

    def _named(self, line: int | None, otherwise: str) -> str:
        if line is not None:
            return f"{self.path}:{line + 1}"
        return f"{self.path}, {otherwise}" if otherwise else str(self.path)


def read_bytes(path: Path, advice: str) -> bytes:
    """Return a file's bytes, or raise `AuthError` with advice if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise AuthError(f"{path}: there is no such file; {advice}") from None
    except OSError as error:
        raise AuthError(f"{path}: it cannot be read ({error.strerror})") from None
