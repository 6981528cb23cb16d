"""What can be wrong with the doors' own files and with names given to them."""


class AuthError(ValueError):
    """A users file, rules file, key or name that cannot be used; nothing was changed by it."""


class BrokenFilesError(AuthError):
    """Everything that is wrong with files, a line each in `problems`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
