"""The catalog of settings: name, type and checks of each.

All of it is derived from the types in `settings`, so that a setting is described in one place.
"""

import math
import tomllib
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct, inspect

from nearcast.broker.config.settings import Settings
from nearcast.core.gathering.needs.rules import parse_rule
from nearcast.core.model.errors import ModelError, did_you_mean
from nearcast.core.model.subject import check_pattern

PREFIX = "NEARCAST_"
PRIVATE = "(set)"


class Setting(Struct, frozen=True):
    """One setting: its place in the file, and its type."""

    section: str
    name: str
    """Empty if the section itself is the setting, as in `decide`."""
    type: object
    default: object

    @property
    def key(self) -> str:
        """Its dotted name."""
        return f"{self.section}.{self.name}" if self.name else self.section

    @property
    def variable(self) -> str:
        """The environment variable that overrides it."""
        return PREFIX + self.key.replace(".", "_").upper()

    @property
    def entry(self) -> inspect.Type | None:
        """The type of the values, if the setting is a table with keys chosen by users."""
        info = inspect.type_info(self.type)
        return info.value_type if isinstance(info, inspect.DictType) else None

    def marked(self, mark: str) -> bool:
        """Return whether its type, or that of its items or keys, has a mark."""
        info = inspect.type_info(self.type)
        info = getattr(info, "item_type", getattr(info, "key_type", info))
        return isinstance(info, inspect.Metadata) and mark in (info.extra or {})


def _all_settings() -> Iterator[Setting]:
    for section in msgspec.structs.fields(Settings):
        if isinstance(section.type, type) and issubclass(section.type, Struct):
            for field in msgspec.structs.fields(section.type):
                yield Setting(section.encode_name, field.encode_name, field.type, field.default)
        else:
            yield Setting(section.encode_name, "", section.type, {})


SETTINGS: Mapping[str, Setting] = {setting.key: setting for setting in _all_settings()}
SECTIONS: tuple[str, ...] = tuple(dict.fromkeys(setting.section for setting in SETTINGS.values()))


def value_of(settings: Settings, setting: Setting) -> object:
    """Return the value of one setting."""
    for section in msgspec.structs.fields(Settings):
        if section.encode_name == setting.section:
            found = getattr(settings, section.name)
            names = {each.encode_name: each.name for each in _fields(found)}
            return getattr(found, names[setting.name]) if setting.name else found
    raise KeyError(setting.key)


def _fields(section: object) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(section) if isinstance(section, Struct) else ()


def public(settings: Settings) -> dict[str, dict[str, object]]:
    """Return the settings by section for read-only clients; private values are hidden."""
    values: dict[str, dict[str, object]] = {section: {} for section in SECTIONS}
    for setting in SETTINGS.values():
        value = value_of(settings, setting)
        if isinstance(value, dict):
            values[setting.section] = value
        else:
            values[setting.section][setting.name] = (
                PRIVATE if value and setting.marked("private") else value
            )
    return values


def from_text(setting: Setting, value: object) -> object:
    """Return the value of a variable or option given as text; lists are separated by commas."""
    if not isinstance(value, str):
        return value
    kind = inspect.type_info(setting.type)
    if isinstance(kind, inspect.VarTupleType) and not value.lstrip().startswith("["):
        return [item.strip() for item in value.split(",") if item.strip()]
    if isinstance(kind, inspect.VarTupleType | inspect.DictType):
        document = tomllib.loads(f"value = {value}")
        if len(document) > 1:
            raise ValueError("more than one value")
        return document["value"]
    if isinstance(kind, inspect.IntType | inspect.FloatType | inspect.BoolType):
        return msgspec.convert(value.strip(), setting.type, strict=False)
    return value


def checked(setting: Setting, value: object) -> object:
    """Return a value of the setting's type, or raise `ValueError`."""
    if isinstance(value, tuple):
        value = list(value)
    checked: object = msgspec.convert(value, setting.type)
    if isinstance(checked, float) and not math.isfinite(checked):
        raise ValueError("not finite")
    if isinstance(checked, str) and "\0" in checked:
        raise ValueError("holds a NUL")
    if setting.marked("subject"):
        for pattern in checked if isinstance(checked, tuple | dict) else (str(checked),):
            check_pattern(pattern)
    return checked


def check_entry(setting: Setting, name: str, value: object) -> None:
    """Raise `ValueError` if an entry is invalid in a table setting such as `decide`."""
    info = inspect.type_info(setting.type)
    names = info.key_type if isinstance(info, inspect.DictType) else None
    if isinstance(names, inspect.LiteralType) and name not in names.values:
        raise ModelError(f"there is no such name; it is one of {', '.join(map(str, names.values))}")
    msgspec.convert({name: value}, setting.type)
    if setting.marked("subject"):
        check_pattern(name)
    if setting.key == "aggregates":
        parse_rule(name, value)


def expected(info: inspect.Type) -> str:
    """Return a description of the values of a type."""
    if isinstance(info, inspect.Metadata):
        return str((info.extra or {}).get("form") or expected(info.type))
    if isinstance(info, inspect.IntType | inspect.FloatType):
        noun = "a whole number" if isinstance(info, inspect.IntType) else "a number"
        if info.ge is not None and info.le is not None:
            return f"{noun} from {info.ge} to {info.le}"
        return f"{noun} above {info.gt}" if info.ge is None else f"{noun} of at least {info.ge}"
    if isinstance(info, inspect.BoolType):
        return "true or false"
    if isinstance(info, inspect.LiteralType):
        choices = ", ".join(f'"{value}"' for value in info.values)
        return f"one of {choices}" if len(info.values) > 1 else choices
    if isinstance(info, inspect.VarTupleType):
        return f"a list, each {expected(info.item_type)}"
    if isinstance(info, inspect.DictType):
        value = expected(info.value_type)
        if not isinstance(info.key_type, inspect.Metadata):
            return f"names, each with {value}"
        if not isinstance(info.value_type, inspect.LiteralType):
            return f"patterns of subjects, each with {value}"
        return f'patterns of subjects, each with {value}, as in {{"traffic/#" = "edge"}}'
    return "text"


def nearest(key: str) -> str:
    """Return a hint for an unknown key: a similar name in its own section, else anywhere."""
    section, _, name = key.partition(".")
    if not name:
        elsewhere = [known for known in SETTINGS if known.endswith(f".{key}")]
        return did_you_mean(key, SECTIONS) or (
            f"; did you mean {' or '.join(elsewhere)}?" if elsewhere else ""
        )
    own = [setting.name for setting in SETTINGS.values() if setting.section == section]
    return did_you_mean(name, own) or did_you_mean(key, SETTINGS)
