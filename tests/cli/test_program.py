"""The program: help is quick, verbs are loaded when called, errors of users are one message."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from nearcast import cli
from nearcast.cli.failures import VerbGroup
from nearcast.core.language import parse
from nearcast.core.model import parse_area
from nearcast.core.model.geometry.places import Places


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_names_the_verbs_without_loading_the_core() -> None:
    ran = run("-X", "importtime", "-m", "nearcast", "--help")
    assert ran.returncode == 0
    assert "doctor" in ran.stdout
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "nearcast.cli" in loaded
    assert loaded.isdisjoint({"numba", "numpy", "shapely", "nearcast.core"})


def test_the_version_is_that_of_the_package() -> None:
    assert run("-m", "nearcast", "--version").stdout == f"nearcast {version('nearcast')}\n"


def test_a_verb_has_its_own_help() -> None:
    ran = run("-m", "nearcast", "doctor", "--help")
    assert ran.returncode == 0
    assert "nearcast doctor" in ran.stdout
    assert "--json" in ran.stdout


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, *path, name)


@pytest.mark.parametrize("verb", cli.VERBS, ids=[verb.name for verb in cli.VERBS])
def test_help_shows_every_word_that_was_written(
    verb: cli.Verb, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    for path, command in commands(cli.command_as_written(verb)):
        with pytest.raises(SystemExit) as left:
            cli.command_of(verb)([*path, "--help"])
        assert left.value.code == 0
        words = " ".join(capsys.readouterr().out.replace("│", " ").split())
        for part in (command, *command.params):
            if getattr(part, "hidden", False):
                continue
            assert " ".join((getattr(part, "help", None) or "").split()) in words


@pytest.mark.parametrize("arguments", [["nonsense"], ["doctor", "--nonsense"]])
def test_a_wrong_verb_or_option_is_exit_code_2(arguments: list[str]) -> None:
    ran = run("-m", "nearcast", *arguments)
    assert ran.returncode == 2
    assert "nonsense" in ran.stderr
    assert "Traceback" not in ran.stderr


def fails(arguments: list[str]) -> None:
    what = arguments[0]
    if what == "filter":
        parse("speed >")
    elif what == "area":
        parse_area("circle:91,0,5")
    elif what == "place":
        Places().find("Atlantis")
    else:
        raise ValueError("a bug")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    app = typer.Typer(cls=VerbGroup, pretty_exceptions_enable=False)
    app.command()(fails)
    app.callback()(lambda: None)
    monkeypatch.setattr(cli, "app", app)
    return monkeypatch


@pytest.mark.parametrize(
    ("what", "said"),
    [("filter", "speed >\n       ^"), ("area", "latitude 91"), ("place", "Atlantis")],
)
def test_what_a_user_got_wrong_is_one_message_and_exit_code_2(
    what: str, said: str, failing: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.setattr(sys, "argv", ["nearcast", "fails", what])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    assert said in capsys.readouterr().err


def test_a_bug_keeps_its_traceback(failing: pytest.MonkeyPatch) -> None:
    failing.setattr(sys, "argv", ["nearcast", "fails", "bug"])
    with pytest.raises(ValueError, match="a bug"):
        cli.main()


def test_completion_is_installed_at_the_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    # The shell that runs the tests is not that of a user.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "--install-completion" in run("-m", "nearcast", "--help").stdout
    done = run("-m", "nearcast", "--install-completion", "bash")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".bash_completions" / "nearcast.sh").exists()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("nearcast doc", ["doctor"]),
        ("nearcast sub --fr", ["--from"]),
        ("nearcast place rem", ["remove"]),
        ("nearcast user add --no", ["--no-password"]),
    ],
)
def test_verbs_and_their_options_are_completed(
    words: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_NEARCAST_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert run("-m", "nearcast").stdout.split() == found
