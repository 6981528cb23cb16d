"""The end of a failed command: one message and an exit code.

Exit code 2 means that an argument was wrong, 1 that the command could not be carried out.
"""

from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from nearcast.errors import NearcastError


def fail(message: str, code: int = 1) -> NoReturn:
    """Print a message to standard error and end the command."""
    typer.echo(message, err=True)
    raise typer.Exit(code)


class VerbGroup(TyperGroup):
    """The group of all verbs; the only place where errors become messages.

    Bugs keep their trace.
    """

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # Typer's Click has no public name
        """Run a verb."""
        try:
            return super().invoke(ctx)
        except NearcastError as error:
            fail(str(error), 2 if isinstance(error, ValueError) else 1)
        except ModuleNotFoundError as error:
            from nearcast.cli.extras import extra_of, how_to_install

            extra = extra_of(error.name or "")
            if extra is None:
                raise
            needs = f"This needs {error.name}, which comes with the extra '{extra}'"
            fail(f"{needs}: {how_to_install(extra)}.")
