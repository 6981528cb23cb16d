"""A set of subjects as a tree of their levels: those that match a pattern, without testing all."""

from collections.abc import Iterator, Sequence
from typing import Union

Branch = dict[str | None, Union["Branch", str]]
"""By level what is below it: a branch, or the subject that ends there; None: one that ends here."""


class SubjectTree:
    """Subjects by level."""

    def __init__(self) -> None:
        self._root: Branch = {}

    def add(self, subject: str) -> None:
        """Add a subject."""
        branch, last = self._path(subject)
        below = branch.get(last)
        if isinstance(below, dict):
            below[None] = subject
        else:
            branch[last] = subject

    def _path(self, subject: str) -> tuple[Branch, str]:
        """Return the branch in which a subject ends, made if necessary, and its last level."""
        *levels, last = subject.split("/")
        branch = self._root
        for level in levels:
            below = branch.get(level)
            if not isinstance(below, dict):
                below = branch[level] = {} if below is None else {None: below}
            branch = below
        return branch, last

    def remove(self, subject: str) -> None:
        """Remove a subject that is there, and branches that only it needed."""
        *levels, last = subject.split("/")
        path: list[tuple[Branch, str]] = []
        branch = self._root
        for level in levels:
            path.append((branch, level))
            below = branch[level]
            assert isinstance(below, dict)
            branch = below
        end = branch[last]
        if isinstance(end, dict):
            path.append((branch, last))
            branch = end
            del branch[None]
        else:
            del branch[last]
        while path and not branch:
            branch, level = path.pop()
            del branch[level]

    def matching(self, pattern: str) -> list[str]:
        """Return the subjects that a checked pattern matches, in no particular order."""
        levels, found = pattern.split("/"), list[str]()
        pending: list[tuple[Branch | str, int]] = [(self._root, 0)]
        while pending:
            branch, at = pending.pop()
            # Behind a # at is -1, which is the level of the # itself.
            level = levels[at] if at < len(levels) else None
            if isinstance(branch, str):
                # `a/#` matches `a` too.
                if level is None or level == "#":
                    found.append(branch)
            elif level is None:
                if None in branch:
                    pending.append((branch[None], at))
            elif level == "#":
                # Everything below; wildcards at the start match no topic of the broker.
                pending += [(each, -1) for name, each in branch.items() if at or _is_open(name)]
            elif level == "+":
                pending += [
                    (each, at + 1)
                    for name, each in branch.items()
                    if name is not None and (at or _is_open(name))
                ]
            elif level in branch:
                pending.append((branch[level], at + 1))
        return found


def _is_open(level: str | None) -> bool:
    """Whether a wildcard at the start of a pattern matches a first level."""
    return level is None or not level.startswith("$")


class RowsBySubject:
    """Rows of live events by their subject."""

    def __init__(self) -> None:
        # Most subjects have one: a set for each would be what garbage collections take longest for.
        self._rows: dict[str, int | set[int]] = {}
        self._tree = SubjectTree()

    def add(self, subject: str, row: int) -> None:
        """Add a row."""
        rows = self._rows.get(subject)
        if rows is None:
            self._rows[subject] = row
            self._tree.add(subject)
        elif isinstance(rows, set):
            rows.add(row)
        else:
            self._rows[subject] = {rows, row}

    def remove(self, subject: str, row: int) -> None:
        """Remove a row."""
        rows = self._rows[subject]
        if isinstance(rows, set):
            rows.discard(row)
        elif rows == row:
            rows = set()
        if isinstance(rows, set) and not rows:
            del self._rows[subject]
            self._tree.remove(subject)

    def matching(self, pattern: str) -> Iterator[int]:
        """Yield the rows whose subject a checked pattern matches."""
        subjects: Sequence[str] = (pattern,) if pattern in self._rows else ()
        if "+" in pattern or "#" in pattern:
            subjects = self._tree.matching(pattern)
        for subject in subjects:
            rows = self._rows[subject]
            if isinstance(rows, set):
                yield from rows
            else:
                yield rows
