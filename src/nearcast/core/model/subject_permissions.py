"""Which subjects somebody may read, as a value that can be recorded with what depends on it.

Rules live with the broker; what they say to one subscriber about the subjects that its filter
counts travels with the subscription, so that every host decides by it alike.
"""

from msgspec import Struct

from nearcast.core.model.subject import subject_matches


class SubjectClause(Struct, frozen=True):
    """What a rule says about subjects; without patterns it is about all of them."""

    allow: bool
    patterns: tuple[str, ...] | None = None

    def is_about(self, subject: str) -> bool:
        """Decide whether it answers for a subject."""
        return self.patterns is None or _fits(self.patterns, subject)


class SubjectPermissions(Struct, frozen=True):
    """The first clause about a subject decides, and where there is none, `default`."""

    clauses: tuple[SubjectClause, ...] = ()
    default: bool = True
    only: tuple[str, ...] | None = None
    """If given, nothing that fits none of these is permitted, whatever the clauses say."""

    def permits(self, subject: str) -> bool:
        """Decide whether a subject may be read."""
        if self.only is not None and not _fits(self.only, subject):
            return False
        return next((one.allow for one in self.clauses if one.is_about(subject)), self.default)


def _fits(patterns: tuple[str, ...], subject: str) -> bool:
    return any(subject_matches(pattern, subject) for pattern in patterns)
