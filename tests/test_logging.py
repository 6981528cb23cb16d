"""There is one way to log: `log_event`, with a logger named after the room."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "nearcast"
METHODS = frozenset(("critical", "debug", "error", "exception", "info", "log", "warn", "warning"))
LOGGERS = frozenset(("log", "logger", "logging", "_log", "_logger"))
NOT_OURS = ("py4j",)
"""Loggers of others whose level we set."""


def calls(path: Path) -> Iterator[ast.Call]:
    tree = ast.parse(path.read_bytes())
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def test_only_log_event_calls_the_methods_of_a_logger() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for call in calls(path)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in METHODS
        and ast.unparse(call.func.value).rpartition(".")[2] in LOGGERS
    ]
    assert [each.partition(":")[0] for each in found] == ["logs.py"], found


def test_a_logger_has_the_name_of_its_room() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0]
        for call in calls(path):
            if ast.unparse(call.func) == "logging.getLogger" and call.args:
                (name,) = (ast.literal_eval(argument) for argument in call.args)
                assert name == f"nearcast.{room}" or name in NOT_OURS, f"{path}: {name}"


def test_nothing_prints_but_the_command_line() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for call in calls(path)
        if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]
    assert found == []
