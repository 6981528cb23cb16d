"""The command line: one module per verb, loaded on use."""

import os
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Annotated, Any, NamedTuple

import typer

from nearcast import _kernel_cache
from nearcast.cli.failures import VerbGroup


class Verb(NamedTuple):
    """A verb: `attribute` of the module is a function or a Typer app."""

    module: str
    attribute: str
    summary: str

    @property
    def name(self) -> str:
        """The name of the command."""
        return self.module.rpartition(".")[2]


VERBS = (
    Verb("demo.demo", "demo", "Watch events find the nodes they concern, in a small living city."),
    Verb("broker.up", "up", "Run an MQTT broker that keeps what it acknowledged."),
    Verb("client.pub", "pub", "Publish a message."),
    Verb("client.sub", "sub", "Subscribe, and print what comes."),
    Verb("broker.user", "app", "Say who may come in."),
    Verb("broker.config", "app", "Show, write and check the configuration."),
    Verb("client.context", "context", "Say where a node is and what it is doing, or read it."),
    Verb("client.nodes", "nodes", "List who is there, in an area or nearest to a node."),
    Verb("client.place", "app", "Load, list and remove named places."),
    Verb("client.relate", "relate", "Tell when nodes come near each other, and when they part."),
    Verb(
        "client.policy", "app", "Load, list, show and remove policies: templates, matrices, roles."
    ),
    Verb("client.script", "app", "Place scripts at nodes: add, edit, execute, remove, list."),
    Verb(
        "broker.explain", "explain", "List recent events, or say why a node did or did not get one."
    ),
    Verb("broker.top", "top", "Show who uses what of a running broker, as it changes."),
    Verb("broker.disconnect", "disconnect", "Disconnect a client, or all of a user."),
    Verb("adhoc", "app", "Meet other nodes without a broker, over multicast."),
    Verb("match", "match", "Try a filter on an event, without a broker."),
    Verb("broker.forget", "forget", "Remove all that a broker knows of a person."),
    Verb("broker.backup", "backup", "Copy a broker's state and log, while it runs or not."),
    Verb("pipeline", "app", "Run the data pipeline on Spark; replay, audit and compact."),
    Verb("bench", "app", "Measure Nearcast beside what else one could use."),
    Verb("simulate", "simulate", "Let nodes move and keep silent in pairs, in virtual time."),
    Verb("experiment", "app", "Repeat the experiments of the source documents."),
    Verb("doctor", "doctor", "Check what is installed, and say what to do."),
)

COMPLETE = "_NEARCAST_COMPLETE"
"""The variable by which a shell requests completion."""

app = typer.Typer(
    name="nearcast", cls=VerbGroup, no_args_is_help=True, pretty_exceptions_enable=False
)


def main() -> None:
    """Run the program."""
    advice = _kernel_cache.choose()
    if advice is not None:
        typer.echo(advice, err=True)
    app(prog_name="nearcast")


def _show_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"nearcast {version('nearcast')}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Publish/subscribe that knows the situation."""


def command_as_written(verb: Verb) -> Any:  # noqa: ANN401  # Typer's Click has no public name
    """Return the command of a verb, with the help text of its module."""
    found = getattr(import_module(f"{__name__}.{verb.module}"), verb.attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command()(found)
        found = alone
    return typer.main.get_command(found)


def command_of(verb: Verb) -> Any:  # noqa: ANN401  # likewise
    """Return the command of a verb, ready to be called with its arguments."""
    command = command_as_written(verb)
    _take_literally(command)
    return command


def _take_literally(command: Any) -> None:  # noqa: ANN401  # likewise
    """Escape brackets in help texts, as around defaults, so that they are not markup."""
    # Not at the top: the list of verbs does not need it, and has to be quick.
    from rich.markup import escape

    for part in (command, *command.params):
        if getattr(part, "help", None):
            part.help = escape(part.help)
    for inner in getattr(command, "commands", {}).values():
        _take_literally(inner)


def _mount(verb: Verb) -> None:
    """Add a verb whose module is imported only on use, so that help is quick."""
    if verb.name in _completed_words():
        _mount_whole(verb)
        return

    def call(context: typer.Context) -> None:
        command_of(verb)(context.args, prog_name=f"nearcast {verb.name}")

    app.command(
        verb.name,
        help=verb.summary,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(call)


def _mount_whole(verb: Verb) -> None:
    """Add a verb with all its options, for shell completion."""
    found = getattr(import_module(f"{__name__}.{verb.module}"), verb.attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=verb.name)
    else:
        app.command(verb.name)(found)


def _completed_words() -> list[str]:
    """Return the words to be completed, if a shell requests completion."""
    if COMPLETE not in os.environ:
        return []
    words = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return words.split()[1:2]


for _verb in VERBS:
    if find_spec(f"{__name__}.{_verb.module}") is not None:
        _mount(_verb)
