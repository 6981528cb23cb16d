"""The subjects that a subscriber may read, as a value recorded with its subscription.

Rules are kept by the broker; their result for the subjects that a subscriber's filter counts is
part of the subscription, so that every host decides by it alike.
"""

from msgspec import Struct

from nearcast.core.model.subject import subject_matches


class SubjectClause(Struct, frozen=True):
    """A rule for subjects; without patterns it is about all of them."""

    allow: bool
    patterns: tuple[str, ...] | None = None

    def is_about(self, subject: str) -> bool:
        """Return whether the clause is about a subject."""
        return self.patterns is None or _fits(self.patterns, subject)


class SubjectPermissions(Struct, frozen=True):
    """Permissions: the first clause about a subject decides; without one, `default`."""

    clauses: tuple[SubjectClause, ...] = ()
    default: bool = True
    only: tuple[str, ...] | None = None
    """If given, only subjects matching one of these are permitted, whatever the clauses."""

    def permits(self, subject: str) -> bool:
        """Return whether a subject may be read."""
        if self.only is not None and not _fits(self.only, subject):
            return False
        return next((one.allow for one in self.clauses if one.is_about(subject)), self.default)


def _fits(patterns: tuple[str, ...], subject: str) -> bool:
    return any(subject_matches(pattern, subject) for pattern in patterns)
