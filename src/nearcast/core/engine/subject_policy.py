"""Policy per subject: whether its events are recorded, and whether they are matched here."""

from nearcast.core.engine.settings import EngineSettings
from nearcast.core.model.subject import SubjectRules


class SubjectPolicy:
    """An operator's choices for subjects."""

    def __init__(self, settings: EngineSettings) -> None:
        self._unrecorded = SubjectRules([(each, True) for each in settings.unrecorded])
        self._elsewhere = SubjectRules(settings.elsewhere)

    def is_recorded(self, subject: str) -> bool:
        """True if events on a subject are recorded; events matched elsewhere always are."""
        return not self._unrecorded.fits(subject) or self._elsewhere.fits(subject)

    def is_elsewhere(self, subject: str) -> bool:
        """True if events on a subject are matched elsewhere."""
        return self._elsewhere.fits(subject)
