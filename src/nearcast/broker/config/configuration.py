"""Configuration: a TOML file, overridden by variables, overridden by options.

Every value is checked where it is given, even if it is overridden later, and all problems are
reported at once: the place, the given value and the expected one. The origin of each value is kept.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, inspect

from nearcast.broker.config.setting_catalog import (
    PREFIX,
    SECTIONS,
    SETTINGS,
    Setting,
    check_entry,
    checked,
    expected,
    from_text,
    nearest,
)
from nearcast.broker.config.settings import Settings
from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.geometry.position import shown
from nearcast.errors import NearcastError

DEFAULT_FILE = Path("nearcast.toml")

_AT = re.compile(r"(.*) \(at (line \d+, column \d+)\)", re.DOTALL)
_PART = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
_DOTTED = rf"({_PART}(?:\s*\.\s*{_PART})*)"
_HEADER = re.compile(rf"\s*\[+\s*{_DOTTED}\s*\]")
_KEY = re.compile(rf"\s*{_DOTTED}\s*=")


class ConfigurationError(NearcastError, ValueError):
    """An invalid configuration; `problems` has a line for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Origin(Struct, frozen=True):
    """The origin of a value, and its exact place."""

    kind: Literal["default", "file", "variable", "option"]
    where: str = ""


class Effective(Struct, frozen=True):
    """The settings in force, and the origin of each by dotted name."""

    settings: Settings
    origins: Mapping[str, Origin]
    file: Path | None


def load(
    path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]
) -> Settings:
    """Return the settings in force, or raise `ConfigurationError`.

    Without a path, `nearcast.toml` in the current directory is read if it exists. Overrides are by
    dotted name; None means not given.
    """
    return effective(path, environ, overrides).settings


def effective(
    path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]
) -> Effective:
    """Return the settings in force and their origins, or raise `ConfigurationError`."""
    if path is None and DEFAULT_FILE.is_file():
        path = DEFAULT_FILE
    gathered = _Gathered()
    if path is not None:
        gathered.read_file(path)
    gathered.read_variables(environ)
    gathered.read_overrides(overrides)
    settings = gathered.settings()
    if not gathered.problems:
        gathered.problems += _contradictions(settings, gathered.origin)
    if gathered.problems:
        raise ConfigurationError(gathered.problems)
    return Effective(settings, {key: gathered.origin(key) for key in SETTINGS}, path)


class _Gathered:
    """The values given so far, later ones over earlier ones, and their problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._values: dict[str, tuple[object, Origin]] = {}

    def origin(self, key: str) -> Origin:
        return self._values[key][1] if key in self._values else Origin("default")

    def settings(self) -> Settings:
        document: dict[str, object] = {}
        sections: dict[str, dict[str, object]] = {}
        for key, (value, _) in self._values.items():
            setting = SETTINGS[key]
            if setting.name:
                sections.setdefault(setting.section, {})[setting.name] = value
            else:
                document[setting.section] = value
        return msgspec.convert(document | sections, Settings)

    def read_file(self, path: Path) -> None:
        try:
            # Some editors start a file with a byte order mark, which TOML does not allow.
            text = path.read_bytes().decode("utf-8-sig")
            document = tomllib.loads(text)
        except OSError as error:
            raise ConfigurationError([f"{path} cannot be read: {error.strerror}"]) from None
        except UnicodeDecodeError as error:
            raise ConfigurationError([f"{path}: not UTF-8 at byte {error.start}"]) from None
        except tomllib.TOMLDecodeError as error:
            found = _AT.fullmatch(str(error))
            problem = f", {found[2]}: not TOML: {found[1]}" if found else f": not TOML: {error}"
            raise ConfigurationError([f"{path}{problem}"]) from None
        lines = _lines(text)

        def where(key: str) -> Origin:
            line = lines.get(key) or lines.get(key.partition(".")[0])
            return Origin("file", f"{path}, line {line}" if line else str(path))

        for section, table in document.items():
            if section not in SECTIONS:
                self._complain(where(section), f"there is no section {section}", nearest(section))
            elif not isinstance(table, dict):
                self._complain(
                    where(section), f"{section} is {shown(table)}, but should be a section"
                )
            elif section in SETTINGS:
                self._take(SETTINGS[section], table, where(section), of_entry=where)
            else:
                for name, value in table.items():
                    key = f"{section}.{name}"
                    if key not in SETTINGS:
                        self._complain(where(key), f"there is no {key}", nearest(key))
                        continue
                    setting = SETTINGS[key]
                    if setting.marked("path") and isinstance(value, str) and value:
                        value = str(path.parent / value)
                    self._take(setting, value, where(key))

    def read_variables(self, environ: Mapping[str, str]) -> None:
        known = {setting.variable: setting for setting in SETTINGS.values()}
        sections = tuple(f"{PREFIX}{section.upper()}" for section in SECTIONS)
        for name, text in sorted(environ.items()):
            if name in known:
                self._take(known[name], text, Origin("variable", name), from_text)
            elif name.startswith(tuple(f"{section}_" for section in sections)) or name in sections:
                self._complain(
                    Origin("variable", name), "there is no such setting", did_you_mean(name, known)
                )

    def read_overrides(self, overrides: Mapping[str, object]) -> None:
        for key, value in overrides.items():
            if value is None:
                continue
            origin = Origin("option", f"option {key}")
            if key not in SETTINGS:
                self._complain(origin, "there is no such setting", nearest(key))
            elif isinstance(value, os.PathLike):
                self._take(SETTINGS[key], os.fspath(value), origin)
            else:
                self._take(SETTINGS[key], value, origin, from_text)

    def _take(
        self,
        setting: Setting,
        value: object,
        origin: Origin,
        read: Callable[[Setting, object], object] = lambda _, value: value,
        of_entry: Callable[[str], Origin] | None = None,
    ) -> None:
        try:
            value = read(setting, value)
            if setting.entry is not None and isinstance(value, dict):
                wrong = dict(_wrong_entries(setting, setting.entry, value))
                for name, why in wrong.items():
                    self._complain(of_entry(f"{setting.key}.{name}") if of_entry else origin, why)
                value = {name: each for name, each in value.items() if name not in wrong}
            self._values[setting.key] = (checked(setting, value), origin)
        except ModelError as error:
            self._complain(origin, f"{setting.key}: {error}")
        except ValueError:
            wanted = expected(inspect.type_info(setting.type))
            self._complain(origin, f"{setting.key} is {shown(value)}, but should be {wanted}")

    def _complain(self, origin: Origin, what: str, hint: str = "") -> None:
        self.problems.append(f"{origin.where}: {what}{hint}")


def _wrong_entries(
    setting: Setting, kind: inspect.Type, table: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """Yield the names of invalid entries in a table, and why they are invalid."""
    for name, value in table.items():
        label = f'{setting.key}."{name}"'
        try:
            check_entry(setting, name, value)
        except ModelError as error:
            yield name, f"{label}: {error}"
        except ValueError:
            yield name, f"{label} is {shown(value)}, but should be {expected(kind)}"


def _lines(text: str) -> dict[str, int]:
    """Return the line of each key and section of a TOML document, where it can be found."""
    found: dict[str, int] = {}
    section: list[str] = []
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        was_inside = inside
        if (line.count('"""') + line.count("'''")) % 2:
            inside = not inside
        header, key = _HEADER.match(line), _KEY.match(line)
        if was_inside or not (header or key):
            continue
        if header:
            names = section = _names(header[1])
        elif key:
            names = section + _names(key[1])
        for depth in range(1, len(names) + 1):
            found.setdefault(".".join(names[:depth]), number)
    return found


def _names(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, dotted)]


def _contradictions(settings: Settings, origin: Callable[[str], Origin]) -> Iterator[str]:
    """Yield settings that are valid by themselves but not in combination."""
    listen = settings.listen

    def given_as(name: str) -> str:
        where = origin(f"listen.{name}").where
        return f"{where}: listen.{name}" if where else f"listen.{name}"

    for name in ("mqtts_port", "wss_port"):
        if getattr(listen, name) >= 0 and not (listen.certificate and listen.key):
            yield f"{given_as(name)} needs listen.certificate and listen.key"
    if bool(listen.certificate) != bool(listen.key):
        given, missing = ("certificate", "key") if listen.certificate else ("key", "certificate")
        yield f"{given_as(given)} needs listen.{missing}"
    if listen.client_certificate == "required" and not listen.client_authority:
        yield f"{given_as('client_certificate')} is required, which needs listen.client_authority"
    if settings.gathering.wait_s < settings.gathering.every_s:
        where = origin("gathering.wait_s").where
        yield f"{where + ': ' if where else ''}gathering.wait_s is less than gathering.every_s"
    ports: dict[int, str] = {}
    for name in ("mqtt_port", "ws_port", "http_port", "mqtts_port", "wss_port"):
        port = getattr(listen, name)
        if port > 0 and port in ports:
            yield f"{given_as(name)} is {port}, as is listen.{ports[port]}"
        ports.setdefault(port, name)
