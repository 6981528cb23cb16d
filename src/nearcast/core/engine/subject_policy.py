"""What is done with events on a subject: recorded or not, decided here or elsewhere."""

from nearcast.core.engine.settings import EngineSettings
from nearcast.core.model.subject import SubjectRules


class SubjectPolicy:
    """What an operator chose for subjects."""

    def __init__(self, settings: EngineSettings) -> None:
        self._unrecorded = SubjectRules([(each, True) for each in settings.unrecorded])
        self._elsewhere = SubjectRules(settings.elsewhere)

    def is_recorded(self, subject: str) -> bool:
        """Whether events on a subject leave a record; what is decided elsewhere always does."""
        return not self._unrecorded.fits(subject) or self._elsewhere.fits(subject)

    def is_elsewhere(self, subject: str) -> bool:
        """Whether events on a subject are decided on elsewhere."""
        return self._elsewhere.fits(subject)
