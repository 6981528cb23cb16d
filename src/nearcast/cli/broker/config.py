"""`nearcast config`: the settings in force, all settings, and checks of a file.

Descriptions are the texts under the fields in `nearcast.broker.config.settings`, and nowhere else.
"""

import ast
import inspect
import json
import os
import textwrap
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearcast.broker.config import settings as settings_module
from nearcast.broker.config.configuration import ConfigurationError, Effective, effective
from nearcast.broker.config.setting_catalog import SECTIONS, SETTINGS, value_of
from nearcast.broker.config.settings import Settings

WIDTH = 98
PIPED_WIDTH = 200

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Show, write and check the configuration.",
)


@app.command()
def show(
    config: Annotated[
        Path | None,
        typer.Option(help="The file; by default nearcast.toml here, if there is one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the settings as JSON.")] = False,
) -> None:
    """Show the settings in force, and what each came from."""
    found = effective(config, os.environ, {})
    if as_json:
        typer.echo(json.dumps(as_rows(found), indent=2))
        return
    file = "without a file" if found.file is None else f"with {found.file}"
    console = Console()
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    console.print(_table(found), Text(f"Read {file}; * is not the default.", style="dim"))


@app.command()
def default() -> None:
    """Print a complete file: every setting with its default and what it means."""
    typer.echo(default_toml(), nl=False)


@app.command()
def check(file: Annotated[Path, typer.Argument(help="The file to check.")]) -> None:
    """Check a file by itself, without variables, and that the files it names are there."""
    found = effective(file, {}, {})
    missing = [
        f"{found.origins[setting.key].where}: {setting.key} names {value}, which is not there"
        for setting in SETTINGS.values()
        if setting.marked("path")
        and setting.key != "broker.data"
        and (value := value_of(found.settings, setting))
        and not Path(str(value)).is_file()
    ]
    if missing:
        raise ConfigurationError(missing)
    given = sum(origin.kind == "file" for origin in found.origins.values())
    typer.echo(f"{file} is right: {given} of {len(SETTINGS)} settings are given.")


def as_rows(found: Effective) -> list[dict[str, object]]:
    """Return every setting with its value and its origin."""
    return [
        {
            "setting": key,
            "value": msgspec.to_builtins(value_of(found.settings, setting)),
            "from": found.origins[key].kind,
            "where": found.origins[key].where,
        }
        for key, setting in SETTINGS.items()
    ]


def default_toml() -> str:
    """Return a configuration file with the default and the description of every setting."""
    texts = descriptions()
    lines = ["# Every setting of Nearcast, as it is without a file."]
    for section in SECTIONS:
        lines += ["", *_comment(texts[section]), f"[{section}]"]
        for setting in SETTINGS.values():
            if setting.section == section and setting.name:
                lines += _comment(texts[setting.key])
                lines.append(f"{setting.name} = {toml_value(setting.default)}")
    return "\n".join(lines) + "\n"


def descriptions() -> dict[str, str]:
    """Return the text of every section and setting, by dotted name."""
    tree = ast.parse(inspect.getsource(settings_module))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    own = _texts(classes[Settings.__name__])
    texts: dict[str, str] = {}
    for section in msgspec.structs.fields(Settings):
        of_section = classes.get(getattr(section.type, "__name__", ""))
        if of_section is None:
            texts[section.encode_name] = own[section.name]
            continue
        texts[section.encode_name] = ast.get_docstring(of_section) or ""
        described = _texts(of_section)
        for setting in msgspec.structs.fields(section.type):
            if setting.name in described:
                key = f"{section.encode_name}.{setting.encode_name}"
                texts[key] = described[setting.name]
    return texts


def toml_value(value: object) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, str):
        # TOML basic strings have the escapes of JSON, but must not contain a bare DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        pairs = (f"{toml_value(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return json.dumps(value)


def _texts(node: ast.ClassDef) -> dict[str, str]:
    """Return the strings directly under the fields of a class."""
    found: dict[str, str] = {}
    for field, after in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[field.target.id] = inspect.cleandoc(after.value.value)
    return found


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")


def _table(found: Effective) -> Table:
    grid = Table("", "setting", "value", "from", box=None, pad_edge=False)
    for key, setting in SETTINGS.items():
        value, origin = value_of(found.settings, setting), found.origins[key]
        mark = "" if value == setting.default else "*"
        # As `Text`, so that brackets in values are not markup.
        grid.add_row(mark, key, Text(toml_value(value)), Text(origin.where or origin.kind))
    return grid
