"""Which groups a node listens to: those of the proximities here that it subscribed to."""

from collections.abc import Iterable

from nearcast.core.model.subject import subject_matches
from nearcast.core.proximity.discovery.discovery import Discovered, Key
from nearcast.core.proximity.step import ProximityStep

_MOST_SUBJECTS = 10_000


class Memberships:
    """The groups of a node, each with the number of reasons to listen to it."""

    def __init__(self) -> None:
        self._patterns: dict[str, str] = {}
        self._joined: dict[Key, int] = {}
        self._reasons: dict[int, int] = {}
        self._wanted: dict[str, bool] = {}
        """Whether a pattern matches a subject, by subject, until the patterns change."""

    def __contains__(self, group: int) -> bool:
        return group in self._reasons

    @property
    def groups(self) -> list[int]:
        """All of them."""
        return sorted(self._reasons)

    def subscribe(self, name: str, pattern: str) -> None:
        """Want the subjects of a pattern."""
        self._wanted.clear()
        self._patterns[name] = pattern

    def unsubscribe(self, name: str) -> None:
        """Want them no more."""
        self._wanted.clear()
        self._patterns.pop(name, None)

    def wants(self, subject: str) -> bool:
        """Return whether a subscription is for a subject."""
        found = self._wanted.get(subject)
        if found is None:
            if len(self._wanted) >= _MOST_SUBJECTS:
                self._wanted.clear()
            found = any(subject_matches(each, subject) for each in self._patterns.values())
            self._wanted[subject] = found
        return found

    def update(
        self, proximities: Iterable[Discovered], announced: Iterable[str], step: ProximityStep
    ) -> None:
        """Join the groups of those that are wanted now, and leave the others.

        What consumers seek is passed on by those who subscribed to it, or announce it.
        """
        subjects = tuple(announced)
        for each in proximities:
            subject = each.type.subject
            if each.beacon.sought:
                wanted = subject in self._patterns.values() or any(
                    subject_matches(subject, one) for one in subjects
                )
            else:
                wanted = self.wants(subject)
            if wanted and each.key not in self._joined:
                self._joined[each.key] = each.group
                self.join(each.group, step)
            elif not wanted:
                self.part(each, step)

    def part(self, found: Discovered, step: ProximityStep) -> None:
        """Leave the group of a proximity, if it was joined."""
        group = self._joined.pop(found.key, None)
        if group is not None:
            self.leave(group, step)

    def join(self, group: int, step: ProximityStep) -> None:
        """Listen to a group for one more reason."""
        count = self._reasons.get(group, 0)
        self._reasons[group] = count + 1
        if not count and not _undone(step.leaves, group):
            step.joins.append(group)

    def leave(self, group: int, step: ProximityStep) -> None:
        """Listen to it for one reason less."""
        count = self._reasons.pop(group, 0)
        if count > 1:
            self._reasons[group] = count - 1
        elif count and not _undone(step.joins, group):
            step.leaves.append(group)


def _undone(opposite: list[int], group: int) -> bool:
    """Return whether the same step did the opposite, and take that back."""
    if group in opposite:
        opposite.remove(group)
        return True
    return False
