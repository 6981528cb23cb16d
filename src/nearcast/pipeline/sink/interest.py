"""Interest: which rows anybody at a broker wants.

Before rows are sent to a broker, it is asked which of their subjects anybody there has subscribed
to; events on others are left out, unless they stay for later subscribers. Deliveries name their
recipients, and are not asked about. A subscription that the broker acknowledged before it was asked
counts; one that comes between the question and the release is too late for that epoch. An earlier
release does not know the question, and gets everything.
"""

import logging
import time
from collections.abc import Sequence

from nearcast.logs import log_event
from nearcast.pipeline.errors import LinkRefusedError
from nearcast.pipeline.sink.broker_link import BrokerLink
from nearcast.wire.handover import (
    MOST_SUBJECTS,
    EventRow,
    HandedRow,
    HandoverError,
    Interest,
    interest_in,
    subjects_bytes,
)

log = logging.getLogger("nearcast.pipeline")
AGAIN_S = 600.0
"""A broker that did not know the question may have been upgraded after this time."""


class BrokerInterest:
    """What one broker wants; asked anew for every epoch."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._known: dict[str, bool] = {}
        self._not_before = 0.0

    def begin(self) -> None:
        """Forget all answers: another epoch begins."""
        self._known.clear()

    def wanted(self, rows: Sequence[HandedRow], link: BrokerLink) -> list[HandedRow]:
        """Return the rows that the broker wants; asks for subjects that are not known yet."""
        if time.monotonic() < self._not_before:
            return list(rows)
        plain = [row for row in rows if isinstance(row, EventRow) and not row.stays]
        subjects = list(dict.fromkeys(row.subject for row in plain))
        new = [subject for subject in subjects if subject not in self._known]
        try:
            for start in range(0, len(new), MOST_SUBJECTS):
                some = new[start : start + MOST_SUBJECTS]
                answer = link.ask(Interest().topic, subjects_bytes(some))
                self._known.update(zip(some, interest_in(answer, len(some)), strict=True))
        except (LinkRefusedError, HandoverError) as error:
            self._not_before = time.monotonic() + AGAIN_S
            log_event(
                log, logging.INFO, "broker cannot say what it wants, and gets everything",
                broker=self._broker, why=str(error),
            )  # fmt: skip
            return list(rows)
        return [
            row
            for row in rows
            if not isinstance(row, EventRow) or row.stays or self._known[row.subject]
        ]
