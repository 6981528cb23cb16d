"""Options of the sink, and the parts of an epoch that tasks report to the driver."""

from collections.abc import Mapping

from msgspec import Struct

from nearcast.pipeline.errors import PipelineInputError
from nearcast.pipeline.sink.broker_address import BrokerAddress

WAIT_S = 30.0
BACKLOG_BYTES = 1 << 30
WAIT, DROP_OLDEST = "wait", "drop-oldest"
"""What happens to new rows for a broker whose backlog is full."""


class SinkOptions(Struct, frozen=True):
    """The parsed options of a write."""

    path: str
    query: str
    epoch: int | None
    wait_s: float
    urls: dict[str, str]
    """URLs of brokers that have no directory here, by name; `*` for all."""
    user: str
    password_file: str
    ca_file: str
    backlog: str = ""
    """The directory of the backlogs; if empty, rows go straight to the brokers."""
    backlog_bytes: int = BACKLOG_BYTES
    backlog_full: str = WAIT
    due_step_s: float = 1.0
    """Times at which timers fire are rounded up to multiples of this."""

    @classmethod
    def read(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Parse options; raises `PipelineInputError`."""
        given = {name.lower(): value for name, value in options.items()}
        urls = {name[4:]: value for name, value in given.items() if name.startswith("url.")}
        if "url" in given:
            urls["*"] = given["url"]
        if not given.get("path") and not urls:
            raise PipelineInputError(
                "the sink needs the option path, the data directory of the brokers"
            )
        try:
            epoch = int(given["epoch"]) if "epoch" in given else None
            wait_s = float(given.get("wait_s", WAIT_S))
            backlog_bytes = int(given.get("backlog_bytes", BACKLOG_BYTES))
            due_step_s = float(given.get("due_step_s", "1"))
        except ValueError as error:
            raise PipelineInputError(
                f"epoch, wait_s, backlog_bytes and due_step_s are numbers: {error}"
            ) from None
        backlog_full = given.get("backlog_full", WAIT)
        if backlog_full not in (WAIT, DROP_OLDEST):
            raise PipelineInputError(
                f"option backlog_full is {WAIT} or {DROP_OLDEST}, not {backlog_full!r}"
            )
        return cls(
            given.get("path", ""),
            given.get("query", "query"),
            epoch,
            wait_s,
            urls,
            given.get("user", ""),
            given.get("password_file", ""),
            given.get("ca_file", ""),
            given.get("backlog", ""),
            backlog_bytes,
            backlog_full,
            due_step_s,
        )

    def place(self, broker: str) -> BrokerAddress:
        """Return the address of a broker."""
        url = self.urls.get(broker.lower(), self.urls.get("*", ""))
        if not url:
            return BrokerAddress(self.path, broker, ca_file=self.ca_file)
        return BrokerAddress(self.path, broker, url, self.user, self.password_file, self.ca_file)


class SinkPart(Struct, frozen=True):
    """The rows for one broker that a task has staged there, or written to its backlog."""

    broker: str
    query: str
    epoch: int
    partition: int
    attempt: str
    packets: int
    rows: int = 0
    dues: tuple[float, ...] = ()
    """Times at which timers of the query wait to fire; such a part has no rows and no broker."""
    as_of: int = 0
    """If not 0, the row of the broker's log as of which `dues` are all its timers: one or none."""

    @property
    def is_about_timers(self) -> bool:
        """True if there is nothing to send."""
        return bool(self.dues or self.as_of)
