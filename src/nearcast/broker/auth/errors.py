"""Errors in the files of users, rules and keys, and in the names in them."""

from nearcast.errors import NearcastError


class AuthError(NearcastError, ValueError):
    """Users, rules, a key or a name that cannot be used; `problems` has a line for each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)
