"""Commands about scripts: `$node/NODE/scripts/ID` for senders, `$me/scripts/ID` for hosts.

A source is checked by a worker before it is in force. Meanwhile nothing more of the connection is
processed, so that what the client sends next finds the script in force, and answers stay in order.
"""

from collections import deque

from msgspec.structs import replace

from nearcast.broker.auth import AuthRefusal
from nearcast.broker.auth.admission import Admission
from nearcast.broker.auth.permissions import ANYTHING, NOTHING, Permissions
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.ingest.acknowledgements import Acknowledger
from nearcast.broker.ingest.command_handler import TO_BE_ANSWERED, Answered
from nearcast.broker.ingest.pending_inputs import Answer
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.quota_book import user_name
from nearcast.broker.scheduling.input_scheduler import InputScheduler
from nearcast.broker.scripts.hosted_script import HostedScript
from nearcast.broker.scripts.placed_script import (
    PlacedScript,
    script_topic,
)
from nearcast.broker.scripts.script_book import ScriptBook
from nearcast.broker.scripts.script_permissions import ScriptPermissions
from nearcast.broker.scripts.script_reports import ScriptReports
from nearcast.broker.scripts.script_request import ScriptRequest, script_request
from nearcast.broker.scripts.script_runner import ScriptRunner
from nearcast.broker.scripts.script_subscriptions import ScriptSubscriptions
from nearcast.broker.scripts.script_turns import SCRIPT, SCRIPT_CALL, ScriptTurns
from nearcast.broker.sessions.connect_handler import RESERVED
from nearcast.broker.sessions.session import Session
from nearcast.broker.sessions.session_lifecycle import SessionLifecycle
from nearcast.broker.situation.nc_properties import BAD, LONGEST_NAME
from nearcast.broker.situation.topic_names import decode_name
from nearcast.core.model.inputs import Presence
from nearcast.placement.worker_messages import CallDone, SourceChecked
from nearcast.placement.worker_pool import BatchListener, ScriptBatch
from nearcast.store import SessionOwner
from nearcast.wire.mqtt import Publish, ReasonCode

FOREVER_S = float("inf")
NO_RIGHT = ReasonCode.NOT_AUTHORIZED
OWN = "$me/scripts/"
"""Where the scripts of the own node are removed."""


class ScriptCommands:
    """Places, changes, runs and removes scripts."""

    def __init__(
        self,
        state: BrokerState,
        driver: EngineDriver,
        acknowledger: Acknowledger,
        admission: Admission,
        lifecycle: SessionLifecycle,
        scheduler: InputScheduler,
        subscriptions: ScriptSubscriptions,
        book: ScriptBook,
        runner: ScriptRunner,
        reports: ScriptReports,
        turns: ScriptTurns,
    ) -> None:
        self._state = state
        self._driver = driver
        self._acknowledger = acknowledger
        self._admission = admission
        self._lifecycle = lifecycle
        self._scheduler = scheduler
        self._subscriptions = subscriptions
        self._book = book
        self._runner = runner
        self._reports = reports
        self._turns = turns
        self._checked: deque[SourceCheck] = deque()

    # Messages

    def place(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> Answered:
        """Carry out a message to `$node/NODE/scripts/ID`; raises `RefusedError`."""
        node, id_ = _target(packet.topic)
        self._check_right(connection.permissions, session, node, id_)
        request = script_request(packet.payload)
        # Rules, contexts and subscriptions are as earlier messages left them.
        self._driver.step(now)
        script = self._book.get(f"{node}~{id_}")
        if request.action == "add":
            if script is not None and not _is_repeat(script, session, packet, request):
                raise RefusedError(BAD, f"{node} has a script {id_!r} already; edit it")
            return None if script is not None else self._add(connection, session, packet, now)
        if script is None:
            raise RefusedError(BAD, f"{node} has no script {id_!r}; add it")
        if not _is_of(script, session):
            why = f"the script is of {script.placed.sender}, who alone may change or run it"
            raise RefusedError(NO_RIGHT, why)
        if request.action == "remove":
            self._remove(connection, session, script, now)
        elif request.action == "execute":
            self._execute(script, request.args)
            self._carried_out(connection, session, SCRIPT_CALL)
        else:
            return self._edit(connection, session, packet, script, request, now)
        return None

    def evict(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> Answered:
        """Remove a script of the client's own node; raises `RefusedError`."""
        id_ = decode_name(packet.topic.removeprefix(OWN))
        script = None if id_ is None else self._book.get(f"{session.node}~{id_}")
        if packet.payload:
            raise RefusedError(BAD, "an empty payload removes a script; nothing else is known here")
        if script is None:
            raise RefusedError(BAD, f"there is no script {id_!r} here")
        self._driver.step(now)
        self._reports.tell_anyway(script.placed, f"{session.node} removed it")
        self._remove(connection, session, script, now)
        return None

    def _remove(
        self, connection: Connection, session: Session, script: HostedScript, now: float
    ) -> None:
        with self._state.journal.aside():
            self._lifecycle.end(script.session, now)
            self._driver.step(now)
        self._carried_out(connection, session, SCRIPT)

    def _carried_out(self, connection: Connection, session: Session, cost: float) -> None:
        """Charge for a command, and let what follows wait if scripts have had their turn."""
        self._turns.charge(session, cost)
        if self._turns.is_over:
            self._turns.end(connection)

    def _check_right(self, permissions: Permissions, session: Session, node: str, id_: str) -> None:
        if not may_place(permissions, session.node, node, id_):
            own = session.node == node
            why = "a rule forbids it" if own else "that needs a rule that allows it by $node/"
            raise RefusedError(NO_RIGHT, f"placing a script at {node}: {why}")

    def _execute(self, script: HostedScript, args: bytes) -> None:
        placed = script.placed
        if "run" not in placed.functions:
            raise RefusedError(BAD, "the script has no function run(args, state)")
        if placed.problem:
            raise RefusedError(BAD, f"the script is stopped ({placed.problem}); edit it")
        if not self._runner.queue(script, args):
            raise RefusedError(ReasonCode.QUOTA_EXCEEDED, "too much waits for the script already")

    def _add(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> Answered:
        node, id_ = _target(packet.topic)
        request = script_request(packet.payload)
        assert request.source is not None
        if session.owner is None:
            raise RefusedError(BAD, "connect again: whose session this is, is not known")
        placed = PlacedScript(
            node, id_, session.client_id, session.owner, self._host_owner(node),
            request.source, (), request.events or b"[]", self._state.unique_id(),
        )  # fmt: skip
        self._check_new(placed, session)
        return self._check(connection, session, packet, placed, request, now)

    def _edit(
        self,
        connection: Connection,
        session: Session,
        packet: Publish,
        script: HostedScript,
        request: ScriptRequest,
        now: float,
    ) -> Answered:
        before = script.placed
        placed = replace(
            before,
            sender=session.client_id,
            owner=session.owner or before.owner,
            host_owner=self._host_owner(before.node) or before.host_owner,
            source=before.source if request.source is None else request.source,
            events=before.events if request.events is None else request.events,
            version=self._state.unique_id(),
            problem="",
        )
        self._check_events(placed, session)
        return self._check(connection, session, packet, placed, request, now)

    # Checks

    def _check_new(self, placed: PlacedScript, session: Session) -> None:
        """Refuse a script that cannot be added, whatever its source does."""
        if placed.client_id in self._state.sessions:
            why = f"{placed.client_id} is a client of this broker; choose another id"
            raise RefusedError(BAD, why)
        if placed.node in self._state.forgetting:
            raise RefusedError(BAD, f"{placed.node} is being forgotten")
        self._book.check_room(session.usage, 1, placed.size)
        self._check_events(placed, session)

    def _check_events(self, placed: PlacedScript, session: Session) -> None:
        self._subscriptions.check(placed, session.permissions)

    def _check(
        self,
        connection: Connection,
        session: Session,
        packet: Publish,
        placed: PlacedScript,
        request: ScriptRequest,
        now: float,
    ) -> Answered:
        """Let a worker check a source; what it asked for is answered when that is done."""
        executor = self._runner.executor
        if executor is None:
            raise RefusedError(BAD, "this broker runs no scripts")
        answer = Answer(connection, packet.qos, packet.packet_id, packet.topic)
        check = SourceCheck(self, connection, session, answer, placed, request)
        self._scheduler.suspend(connection)
        executor.submit(
            ScriptBatch(user_name(placed.owner), placed.version, placed.source, b"{}", (), check)
        )
        return TO_BE_ANSWERED

    @property
    def is_due(self) -> bool:
        """Whether sources were checked."""
        return bool(self._checked)

    def note_checked(self, check: "SourceCheck") -> None:
        """Let the result of a check be applied in the next tick."""
        self._checked.append(check)
        self._state.is_woken = True
        self._runner.wake()

    def apply_checks(self, now: float) -> None:
        """Put scripts in force whose source was checked, and answer who sent them.

        One at least, and as many as are in turn.
        """
        turns = self._turns
        while self._checked:
            since = turns.clock()
            check = self._checked.popleft()
            self._driver.step(now)
            try:
                with self._state.journal.aside():
                    self._put_in_force(check, now)
                    self._driver.step(now)
            except RefusedError as refusal:
                refused = refusal.with_traceback(None)
                self._acknowledger.refuse_in_turn(check.connection, check.answer, refused)
            else:
                self._acknowledger.answer(check.answer, None)
            turns.charge(check.session, SCRIPT, since)
            turns.await_answer(check.connection)
            if turns.is_over:
                break

    def _put_in_force(self, check: "SourceCheck", now: float) -> None:
        result, request, session = check.result, check.request, check.session
        if result.problem:
            raise RefusedError(BAD, result.problem)
        placed = replace(check.placed, functions=result.functions)
        if placed.events != b"[]" and "on_event" not in placed.functions:
            raise RefusedError(BAD, 'a script with "events" defines on_event(event, state)')
        if request.run_on_load and "run" not in placed.functions:
            raise RefusedError(BAD, 'a script with "run_on_load" defines run(args, state)')
        # Something may have changed while it was checked.
        self._check_right(session.permissions, session, placed.node, placed.id)
        script = self._book.get(placed.client_id)
        if request.action == "add":
            if script is not None:
                raise RefusedError(BAD, f"{placed.node} has a script {placed.id!r} already")
            self._check_new(placed, session)
            script = self._begin(placed, now)
        elif script is None:
            raise RefusedError(BAD, f"{placed.node} has no script {placed.id!r} any more")
        else:
            self._book.check_room(session.usage, 0, placed.size - script.placed.size)
            self._check_events(placed, session)
            self._replace(script, placed)
        if request.run_on_load:
            self._runner.queue(script, request.args)
        self._reports.note_changed(placed.node)

    # What stands

    def _begin(self, placed: PlacedScript, now: float) -> HostedScript:
        session = self._lifecycle.begin(placed.client_id, placed.owner, now)
        session.owner, session.expiry_s, session.durable = placed.owner, FOREVER_S, True
        session.left_at = now
        script = self.host(placed, session)
        self.recall(script)
        self._lifecycle.keep(session)
        try:
            self._subscriptions.replace(session, placed)
        except RefusedError:
            session.reader = None
            self._lifecycle.end(session, now)
            raise
        self._book.add(script)
        self.announce(script)
        return script

    def _replace(self, script: HostedScript, placed: PlacedScript) -> None:
        """Put another version of a script in force; its state and what waits for it stay."""
        if placed.events != script.placed.events or placed.sender != script.placed.sender:
            self._subscriptions.replace(script.session, placed)
        self._runner.abandon(script)
        self._book.change(script, placed)
        script.failures = 0
        self._runner.note_queued(script)

    def host(self, placed: PlacedScript, session: Session) -> HostedScript:
        """Return a script that reads a session."""
        return HostedScript(
            placed, session, self._state.engine.matcher.world, self._runner.note_queued,
            self.recall, self._ended, self._told,
        )  # fmt: skip

    def announce(self, script: HostedScript) -> None:
        """Let live events come to a script whenever they match, as to a client that is there."""
        session = script.session
        self._state.pending.ask(Presence(session.node, True, session.part))

    def recall(self, script: HostedScript) -> AuthRefusal | None:
        """Set what a script may do now; return why it must end."""
        placed, session = script.placed, script.session
        sender = self._recall(placed.owner, placed.sender)
        if isinstance(sender, AuthRefusal):
            session.permissions = NOTHING
            self._reports.tell_anyway(placed, f"removed: {sender.why}")
            return sender
        if not may_place(sender, placed.sender_node, placed.node, placed.id):
            session.permissions = NOTHING
            why = f"a rule forbids placing scripts at {placed.node}"
            self._reports.tell_anyway(placed, f"removed: {why}")
            return AuthRefusal(NO_RIGHT, why)
        host: Permissions | AuthRefusal = sender
        if placed.sender_node != placed.node:
            owner = self._host_owner(placed.node) or placed.host_owner
            host = self._recall(owner or SessionOwner(), placed.node)
        if isinstance(host, AuthRefusal):
            host = NOTHING
        session.permissions = ScriptPermissions(sender, host)
        return None

    def _recall(self, owner: SessionOwner, client_id: str) -> Permissions | AuthRefusal:
        return ANYTHING if owner.is_broker else self._admission.recall(owner, client_id)

    def _host_owner(self, node: str) -> SessionOwner | None:
        session = self._state.sessions.get(node)
        return None if session is None else session.owner

    def _told(self, script: HostedScript, why: str) -> None:
        self._reports.tell_anyway(script.placed, why)

    def _ended(self, script: HostedScript) -> None:
        self._runner.forget(script)
        if self._book.remove(script):
            self._reports.forget(script.placed)
            self._reports.note_changed(script.placed.node)


class SourceCheck(BatchListener):
    """A source that a worker checks, and who is to be answered."""

    def __init__(
        self,
        commands: ScriptCommands,
        connection: Connection,
        session: Session,
        answer: Answer,
        placed: PlacedScript,
        request: ScriptRequest,
    ) -> None:
        self._commands = commands
        self.connection = connection
        self.session = session
        self.answer = answer
        self.placed = placed
        self.request = request
        self.result = SourceChecked()

    def checked(self, result: SourceChecked) -> None:
        """Take the result."""
        self.result = result

    def called(self, result: CallDone) -> None:
        """There are no calls."""

    def context(self, node: str) -> bytes:
        """A source that is only checked sees nothing."""
        return b""

    def finished(self, broken: bool) -> None:
        """Answer in the next tick."""
        self._commands.note_checked(self)


def may_place(permissions: Permissions, sender_node: str, node: str, id_: str) -> bool:
    """Whether a node may place a script: at itself unless a rule forbids it, else by a rule."""
    rule = permissions.script_rule(script_topic(node, id_))
    return rule is not False if sender_node == node else rule is True


def _target(topic: str) -> tuple[str, str]:
    """Return the node and the id in a topic."""
    levels = topic.split("/")
    if len(levels) != 4 or levels[2] != "scripts":
        raise RefusedError(NO_RIGHT, f"{topic!r} is not a topic to publish to")
    node, id_ = decode_name(levels[1]), decode_name(levels[3])
    if node is None or "~" in node or node in RESERVED:
        raise RefusedError(BAD, f"{levels[1]!r} names no node that could have scripts")
    if id_ is None or len(id_) > LONGEST_NAME:
        raise RefusedError(BAD, f"the id of a script has 1 to {LONGEST_NAME} characters")
    return node, id_


def _is_of(script: HostedScript, session: Session) -> bool:
    """Whether a session is one of those that sent a script: of the same user, or node."""
    user = script.placed.owner.user
    if user is not None or session.owner is None or session.owner.user is not None:
        return session.owner is not None and session.owner.user == user
    return session.node == script.placed.sender_node


def _is_repeat(
    script: HostedScript, session: Session, packet: Publish, request: ScriptRequest
) -> bool:
    """Whether a message was sent again by a client that did not get the answer."""
    placed = script.placed
    events = request.events or b"[]"
    given = packet.dup, placed.sender, placed.source, placed.events
    return given == (True, session.client_id, request.source, events)
