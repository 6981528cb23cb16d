"""What is damaged in a broker's state, by name: sessions, messages, and commits that were lost.

Looked for before the state is opened: a message that is not what was written is never delivered,
and a log that ends before an acknowledged commit is not silently cut off there.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from nearcast.store.errors import CorruptError
from nearcast.store.integrity.btree import Tree, TreeDamage, TreeRow
from nearcast.store.integrity.state_image import StateImage

MOST_NAMED = 10
Names = dict[int, str]
Describe = Callable[[TreeRow, Names], str]


class LostCommits(Struct, frozen=True):
    """Commits that were acknowledged, and that the files no longer have."""

    ticks: int
    """The number of commits that are left."""
    marked_ticks: int
    seq: int
    marked_seq: int
    frame: int
    """The first frame of the write-ahead log that cannot be read."""
    frames_left: int
    commits_left: int

    def __str__(self) -> str:
        lost = f"{self.marked_ticks - self.ticks} acknowledged commits are missing"
        if self.marked_seq > self.seq:
            lost += f", with rows {self.seq + 1} to {self.marked_seq} of the log"
        if self.frames_left:
            return (
                f"{lost}: frame {self.frame} of the write-ahead log is damaged, and "
                f"{self.frames_left} frames from there on ({self.commits_left} commits) are ignored"
            )
        return f"{lost}: the write-ahead log ends after frame {self.frame - 1}"


class StateDamage(Struct, frozen=True):
    """What was found."""

    pages: tuple[int, ...] = ()
    """Pages that are not what was written."""
    items: tuple[str, ...] = ()
    """What was on them, by name."""
    lost: LostCommits | None = None
    unverified: int = 0
    """Pages that cannot be verified, because their checksums are gone."""
    has_checksums: bool = True

    def __bool__(self) -> bool:
        return bool(self.pages or self.lost)

    def __str__(self) -> str:
        told = []
        if self.lost is not None:
            told.append(str(self.lost))
        if self.pages:
            named = ", ".join(self.items[:MOST_NAMED]) or "nothing that can be named"
            if len(self.items) > MOST_NAMED:
                named += f" and {len(self.items) - MOST_NAMED} more"
            told.append(f"{len(self.pages)} pages are not what was written: {named}")
        return "; ".join(told)


def find_damage(database: Path) -> StateDamage:
    """Return the damage of a state; raises `CorruptError` if it is no database."""
    with StateImage(database) as image:
        return damage_of(image)


def damage_of(image: StateImage) -> StateDamage:
    """Return the damage in an image of a state."""
    items = list(_named(image)) if image.damaged else []
    return StateDamage(
        tuple(sorted(image.damaged)),
        tuple(dict.fromkeys(items)),
        _lost(image),
        image.unverified,
        image.has_checksums,
    )


def position_of(image: StateImage) -> tuple[int, int] | None:
    """Return the ticks and the last seq in an image; None if that cannot be told."""
    tables = image.tables()
    if "position" not in tables or "tail" not in tables:
        return None
    position = [row for row in tables["position"].rows() if isinstance(row, TreeRow)]
    if len(position) != 1 or position[0].is_damaged:
        return None
    seq, ticks = position[0].values[2:4]
    assert isinstance(seq, int)
    assert isinstance(ticks, int)
    later = [
        row.rowid
        for row in tables["tail"].rows()
        if isinstance(row, TreeRow) and row.rowid is not None and row.rowid > seq
    ]
    return ticks + len(later), max(later, default=seq)


def _lost(image: StateImage) -> LostCommits | None:
    """Compare the last commit with the mark of the last synced one."""
    mark, found = image.mark, position_of(image)
    if found is None and not image.damaged:
        # Not even the tables are in the database yet: all was in the write-ahead log.
        found = 0, 0
    if mark is None or found is None or found[0] >= mark.ticks:
        return None
    left, commits = image.log.frames_left()
    ticks, seq = found
    return LostCommits(ticks, mark.ticks, seq, mark.seq, image.log.frames + 1, left, commits)


def _named(image: StateImage) -> Iterator[str]:
    """Yield the names of all that is on damaged pages."""
    tables = image.tables()
    if 1 in image.damaged or not tables:
        yield "the description of the tables"
    sessions = _session_names(tables.get("sessions"))
    seen: set[int] = {1}
    for name, tree in tables.items():
        describe, is_named = _DESCRIPTIONS.get(name), False
        for row in tree.rows():
            if isinstance(row, TreeDamage):
                is_named = True
                yield f"a part of {name} (page {row.page})"
            elif row.is_damaged:
                is_named = True
                yield _described(describe, row, sessions) or f"a row of {name}"
        if not is_named and tree.pages & image.damaged:
            yield f"a page of {name} without rows"
        seen |= tree.pages
    for page in sorted(image.damaged - seen):
        yield f"page {page}, which has no data of its own"


def _session_names(tree: Tree | None) -> Names:
    rows = [] if tree is None else [row for row in tree.rows() if isinstance(row, TreeRow)]
    return {row.rowid: str(row.values[1]) for row in rows if row.rowid is not None}


def _session(sessions: Names, number: object) -> str:
    name = sessions.get(number) if isinstance(number, int) else None
    return "an unknown session" if name is None else f"session {name!r}"


def _described(describe: Describe | None, row: TreeRow, sessions: Names) -> str:
    try:
        return "" if describe is None else describe(row, sessions)
    except IndexError:
        # It has not even as many values as it should.
        return ""


_DESCRIPTIONS: dict[str, Describe] = {
    "sessions": lambda row, _: f"session {row.values[1]!r}",
    "subscriptions": lambda row, sessions: (
        f"subscription {row.values[1]!r} of {_session(sessions, row.values[0])}"
    ),
    "messages": lambda row, _: f"message {row.rowid}",
    "queue": lambda row, sessions: (
        f"queue entry {row.rowid} of {_session(sessions, row.values[1])}"
    ),
    "received": lambda row, sessions: (
        f"packet id {row.values[1]!r} of {_session(sessions, row.values[0])}"
    ),
    "live": lambda row, _: f"live event {row.values[1]!r}",
    "kept": lambda row, _: f"{row.values[1]!r} of {row.values[0]!r}",
    "tail": lambda row, _: f"rows {row.values[1]!r} to {row.rowid} of the log",
}


def check_state(database: Path) -> StateDamage:
    """Return the damage of a state that can be gone on with; raises `CorruptError` for other."""
    try:
        damage = find_damage(database)
    except CorruptError as error:
        raise _refusal(database, str(error), _BEGIN_ANEW) from None
    if damage:
        raise _refusal(database, str(damage), _GO_ON)
    return damage


_GO_ON = (
    "go on without that with `nearcast up --discard-damaged`, which sets a copy of all of it aside"
)
_BEGIN_ANEW = "move it and the log beside it away to begin anew"


def _refusal(database: Path, damage: str, remedy: str) -> CorruptError:
    return CorruptError(
        f"{database}: the database is damaged: {damage}. It was left as it is. Restore a backup, "
        f"or {remedy}"
    )
