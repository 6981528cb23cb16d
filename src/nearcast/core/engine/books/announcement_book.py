"""The book of announcements: the standing target of a node's events on a subject.

An announcement lasts as long as the session that made it.
"""

from collections.abc import Callable

from nearcast.core.model.event import Announcement

AnnouncementObserver = Callable[[Announcement, int], None]
"""Called with an announcement that was put (1) or ended (-1)."""


class AnnouncementBook:
    """Announcements by node and subject, and by session."""

    def __init__(self) -> None:
        self.by_subject: dict[tuple[str, str], Announcement] = {}
        """By node and subject."""
        self._of_session: dict[str, set[tuple[str, str]]] = {}
        self.observer: AnnouncementObserver | None = None

    def put(self, announcement: Announcement) -> None:
        """Add an announcement, replacing that for the same node and subject."""
        self.end(announcement.node, announcement.subject)
        at = (announcement.node, announcement.subject)
        self.by_subject[at] = announcement
        self._of_session.setdefault(announcement.owner, set()).add(at)
        if self.observer is not None:
            self.observer(announcement, 1)

    def end(self, node: str, subject: str) -> None:
        """End a node's announcement for a subject, if there is one."""
        at = (node, subject)
        announcement = self.by_subject.pop(at, None)
        if announcement is not None:
            own = self._of_session[announcement.owner]
            own.discard(at)
            if not own:
                del self._of_session[announcement.owner]
            if self.observer is not None:
                self.observer(announcement, -1)

    def leave(self, session: str) -> None:
        """End the announcements of a session."""
        for at in self.of_session(session):
            self.end(*at)

    def forget(self, node: str) -> None:
        """End all announcements of a node, of whatever session."""
        for at in [at for at in self.by_subject if at[0] == node]:
            self.end(*at)

    def of_session(self, session: str) -> list[tuple[str, str]]:
        """Pairs of node and subject of a session's announcements."""
        return sorted(self._of_session.get(session, ()))
