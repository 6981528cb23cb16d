"""Policy per subject: whether its events are recorded, and whether they are matched here."""

from nearcast.core.engine.settings import EngineSettings
from nearcast.core.model.event import Event
from nearcast.core.model.event_run import EventRun
from nearcast.core.model.subject import SubjectRules


class SubjectPolicy:
    """An operator's choices for subjects."""

    def __init__(self, settings: EngineSettings) -> None:
        self._unrecorded = SubjectRules([(each, True) for each in settings.unrecorded])
        self._elsewhere = SubjectRules(settings.elsewhere)
        self.has_elsewhere = not self._elsewhere.is_empty
        """Whether events on any subject are matched elsewhere."""
        self._records_unpromised = True
        self.records_all = self._unrecorded.is_empty
        """Whether all events are recorded now, whatever their subject."""
        self.left_out = 0
        """Events that were not recorded for that reason."""

    @property
    def records_unpromised(self) -> bool:
        """False: events of QoS 0 that do not stay are not recorded; no decision depends on it."""
        return self._records_unpromised

    @records_unpromised.setter
    def records_unpromised(self, records: bool) -> None:
        self._records_unpromised = records
        self.records_all = records and self._unrecorded.is_empty

    def records(self, event: Event) -> bool:
        """True if an event is recorded."""
        if not self.is_recorded(event.subject):
            return False
        if self.records_unpromised or event.qos or event.stays:
            return True
        self.left_out += 1
        return False

    def records_run(self, run: EventRun) -> bool:
        """True if the events of a run, which do not stay, are recorded."""
        if not self.is_recorded(run.subject):
            return False
        if self.records_unpromised or run.qos:
            return True
        self.left_out += len(run)
        return False

    def is_recorded(self, subject: str) -> bool:
        """True if events on a subject are recorded; events matched elsewhere always are."""
        return not self._unrecorded.fits(subject) or self._elsewhere.fits(subject)

    def is_elsewhere(self, subject: str) -> bool:
        """True if events on a subject are matched elsewhere."""
        return self._elsewhere.fits(subject)
