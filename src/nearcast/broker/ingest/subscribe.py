"""Subscribing: requests of clients become subscriptions after checks.

A subscription is (session, topic filter); subscribing again replaces it. A refusal has a reason and
leaves the old subscription unchanged. A packet with many filters is processed in several turns.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from nearcast.broker.auth.count_rights import countable_by, noted_if_counting
from nearcast.broker.auth.permissions import Permissions
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.ingest.filters_request import FiltersRequest
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.sizes import SubscriptionSize, subscription_size
from nearcast.broker.sessions.granted import SessionSubscription
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.commands import is_planned
from nearcast.broker.situation.errors import ErrorReports
from nearcast.broker.situation.match_warnings import MatchWarnings
from nearcast.broker.situation.nc_properties import (
    BAD,
    LONGEST_NAME,
    PREFIX,
    SubscriptionOptions,
    named_subscription_from_json,
    subscription_options,
)
from nearcast.broker.situation.relevance_options import resolved_options
from nearcast.broker.situation.topic_names import (
    BROKER_TOPICS,
    CALLS,
    ERRORS,
    FOLLOW,
    PRIVATE,
    SCRIPTS,
    normalize_topic,
)
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Subscription
from nearcast.core.model.inputs import Subscribed, Unsubscribed
from nearcast.core.model.subject_permissions import SubjectPermissions
from nearcast.core.model.subscription_id import SubscriptionId
from nearcast.store import SubscriptionDropped, SubscriptionPut, SubscriptionState
from nearcast.wire.mqtt import (
    MQTT_5,
    NO_PROPERTIES,
    CheckedFilter,
    Properties,
    Publish,
    ReasonCode,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    encode_within,
    parse_filter,
)

NO_LIMIT = 1 << 28
NAMED = "$me/subscriptions/"
READABLE = ("$node", "$area", "$relate", "$place", "$policy", "$SYS")
"""Topics starting with `$` that can be subscribed to."""


class SubscribeRequest(FiltersRequest):
    """A SUBSCRIBE of which some filters are decided."""

    def __init__(
        self,
        options: SubscriptionOptions,
        identifier: int | None,
        warned: Sequence[str],
        live: int,
    ) -> None:
        super().__init__(live)
        self.options = options
        self.identifier = identifier
        self.warned = warned
        """What is to be known of its options, whatever the filter."""
        self.why: list[str] = []
        """Why filters were refused."""
        self.warnings: list[str] = []
        """Why granted filters match nothing now."""
        self.granted: list[str] = []
        """The ids of the subscriptions."""


class SubscribeHandler:
    """Handles SUBSCRIBE and UNSUBSCRIBE, and named subscriptions."""

    def __init__(
        self,
        state: BrokerState,
        driver: EngineDriver,
        errors: ErrorReports,
        warnings: MatchWarnings,
    ) -> None:
        self._state = state
        self._driver = driver
        self._errors = errors
        self._warnings = warnings
        self.listens_to_scripts: Callable[[Session], None] = lambda session: None
        """Called when a session has subscribed to the list of scripts."""
        self.follows: Callable[[Session], None] = lambda session: None
        """Called when a session has subscribed to orders about regions."""
        self.hosts: Callable[[Session], None] = lambda session: None
        """Called when a session has subscribed to calls of its scripts."""

    def subscribe(self, connection: Connection, session: Session, packet: Subscribe) -> bool:
        """Grant the next filters of a packet that can be granted, with the last send a SUBACK.

        Returns False if filters are left, for which this is to be called again.
        """
        request = connection.request
        if request is None:
            request = self._begin(connection, session, packet)
            if request is None:
                return True
        assert isinstance(request, SubscribeRequest)
        granted: list[Subscribed] = []
        for wanted in request.next_filters(packet.filters):
            try:
                granted += self.grant(
                    connection.permissions, session, wanted, request.identifier, request.options
                )
                request.reasons.append(ReasonCode(wanted.qos))
            except RefusedError as refusal:
                self._state.counters["refused"] += 1
                request.reasons.append(refusal.reason)
                if refusal.why not in request.why:
                    request.why.append(refusal.why)
                    self._errors.tell(session, wanted.filter, refusal.why)
        known = self._warnings.known_now([each.subscription for each in granted], request.options)
        for each in (*known, *(request.warned if granted else ())):
            if each not in request.warnings:
                request.warnings.append(each)
        for place, value in enumerate(granted, 1):
            self._state.pending.ask(replace(value, more=True) if place < len(granted) else value)
        request.granted += [each.subscription.id for each in granted]
        if len(request.reasons) < len(packet.filters):
            connection.request = request
            return False
        connection.request = None
        self._answer(connection, session, packet, request)
        return True

    def _begin(
        self, connection: Connection, session: Session, packet: Subscribe
    ) -> "SubscribeRequest | None":
        """Check what concerns all filters of a packet; None if all of them are refused."""
        given = packet.properties.subscription_identifiers
        options, problem = SubscriptionOptions(), self._problem_with(packet)
        warned: list[str] = []
        if problem is None:
            try:
                options = subscription_options(packet.properties.user_properties)
                if options.is_situated:
                    # Whether a condition can match depends on earlier inputs.
                    self._driver.step(connection.heard_at)
                self.vet(session.node, options, "nc-from")
                options, warned = resolved_options(
                    options, self._state.engine, session.node, "nc-relevance"
                )
            except RefusedError as refusal:
                # Its traceback has this frame, which would keep the packet until a collection.
                problem = refusal.with_traceback(None)
        if problem is not None:
            self._refuse(connection, session, packet, problem)
            return None
        live = len(self._state.engine.live)
        return SubscribeRequest(options, given[0] if given else None, warned, live)

    def _answer(
        self,
        connection: Connection,
        session: Session,
        packet: Subscribe,
        request: "SubscribeRequest",
    ) -> None:
        """Send the SUBACK of a packet whose filters are all decided."""
        reasons, warnings, now = tuple(request.reasons), request.warnings, connection.heard_at
        answer = SubAck(packet.packet_id, reasons, _reason(connection, request.why + warnings))
        self._write(connection, answer)
        if warnings and not _explains(connection):
            for id_ in request.granted:
                self._warnings.tell(session, id_, warnings, now)
        if any(wanted.filter == ERRORS for wanted in packet.filters):
            self._warnings.listen(session, now)
        if any(wanted.filter == SCRIPTS for wanted in packet.filters):
            self.listens_to_scripts(session)
        if any(wanted.filter == FOLLOW for wanted in packet.filters):
            self.follows(session)
        if any(wanted.filter == CALLS for wanted in packet.filters):
            self.hosts(session)

    def _refuse(
        self, connection: Connection, session: Session, packet: Subscribe, problem: RefusedError
    ) -> None:
        """Refuse all filters of a packet."""
        self._state.counters["refused"] += len(packet.filters)
        self._errors.tell(session, packet.filters[0].filter, problem.why)
        reasons = (problem.reason,) * len(packet.filters)
        properties = _reason(connection, [problem.why])
        self._write(connection, SubAck(packet.packet_id, reasons, properties))
        if any(wanted.filter == ERRORS for wanted in packet.filters):
            self._warnings.listen(session, connection.heard_at)

    def unsubscribe(self, connection: Connection, session: Session, packet: Unsubscribe) -> bool:
        """End the next subscriptions of a packet, with the last send an UNSUBACK.

        Returns False if filters are left, for which this is to be called again.
        """
        request = connection.request
        if request is None:
            if not self._may_unsubscribe(connection, packet):
                return True
            request = FiltersRequest()
        for topic_filter in request.next_filters(packet.filters):
            ended = self.end(session, SubscriptionId(session.client_id, topic_filter))
            reason = ReasonCode.SUCCESS if ended else ReasonCode.NO_SUBSCRIPTION_EXISTED
            request.reasons.append(reason)
        if len(request.reasons) < len(packet.filters):
            connection.request = request
            return False
        connection.request = None
        self._write(connection, UnsubAck(packet.packet_id, tuple(request.reasons)))
        return True

    def _may_unsubscribe(self, connection: Connection, packet: Unsubscribe) -> bool:
        """Refuse all filters of a packet that is not allowed; return whether it is."""
        state = self._state
        most = state.limits.filters_per_packet
        ours = [name for name, _ in packet.properties.user_properties if name.startswith(PREFIX)]
        why: list[str] = []
        if len(packet.filters) > most:
            why = [f"at most {most} filters are taken in one packet"]
        elif ours:
            why = [f"{ours[0]} says nothing here: an UNSUBSCRIBE has no words of ours"]
        if why:
            refused = (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,) * len(packet.filters)
            self._write(connection, UnsubAck(packet.packet_id, refused, _reason(connection, why)))
        return not why

    def end(self, session: Session, id_: SubscriptionId) -> bool:
        """End a subscription; return whether there was one."""
        if not self.drop(session, id_):
            return False
        if id_.filter not in PRIVATE:
            self._state.pending.ask(Unsubscribed(id_.text))
        return True

    def drop(self, session: Session, id_: SubscriptionId) -> bool:
        """Drop a subscription that the engine need not know; return whether there was one."""
        if not session.revoke(id_.text):
            return False
        if session.durable:
            self._state.journal.note(SubscriptionDropped(id_.client_id, id_.key))
        return True

    def _problem_with(self, packet: Subscribe) -> RefusedError | None:
        """Return why a packet as a whole is refused, or None."""
        limits, pairs = self._state.limits, packet.properties.user_properties
        if len(packet.filters) > limits.filters_per_packet:
            return RefusedError(
                ReasonCode.QUOTA_EXCEEDED,
                f"{len(packet.filters)} filters in one packet; at most "
                f"{limits.filters_per_packet} are taken",
            )
        if len(pairs) > limits.user_properties:
            return RefusedError(
                ReasonCode.QUOTA_EXCEEDED,
                f"{len(pairs)} user properties; at most {limits.user_properties} are taken",
            )
        return None

    def named(self, connection: Connection, session: Session, packet: Publish, now: float) -> None:
        """Set a named subscription from JSON, or end it if the payload is empty."""
        # Earlier events are decided by the subscriptions in force when they came.
        self._driver.step(now)
        state, name = self._state, packet.topic[len(NAMED) :]
        if not 0 < len(name) <= LONGEST_NAME:
            raise RefusedError(BAD, f"a name has 1 to {LONGEST_NAME} characters")
        if not packet.payload:
            self.end(session, SubscriptionId(session.client_id, "", name))
            return
        asked = named_subscription_from_json(packet.payload)
        self.vet(session.node, asked.options, '"from"')
        options, warned = resolved_options(asked.options, state.engine, session.node, '"relevance"')
        topic_filter = TopicFilter(asked.subject, asked.qos, asked.no_local)
        try:
            envelope = asked.envelope
            granted = self.grant(
                connection.permissions, session, topic_filter, None, options, name, envelope
            )
            for value in granted:
                state.pending.ask(value)
            known = self._warnings.known_now([each.subscription for each in granted], options)
            known += warned
            for value in granted:
                self._warnings.tell(session, value.subscription.id, known, connection.heard_at)
        except RefusedError as refusal:
            if refusal.reason is ReasonCode.TOPIC_FILTER_INVALID:
                # A PUBACK cannot carry that reason code.
                raise RefusedError(BAD, refusal.why) from None
            raise

    def vet(self, node: str, options: SubscriptionOptions, what: str) -> None:
        """Refuse a `from` condition that the engine would refuse, before anything is changed."""
        if options.from_ is not None:
            try:
                self._state.engine.vet(Subscription("", node, "#", from_=options.from_))
            except ModelError as error:
                raise RefusedError(BAD, f"{what}: {error}") from None

    def grant(
        self,
        allowed: Permissions,
        session: Session,
        wanted: TopicFilter,
        identifier: int | None,
        options: SubscriptionOptions,
        name: str | None = None,
        envelope: bool = False,
    ) -> list[Subscribed]:
        """Grant one filter; return the inputs for the engine."""
        state, limits = self._state, self._state.limits
        text = wanted.filter
        if len(text.encode()) > limits.topic_bytes or text.count("/") >= limits.topic_levels:
            raise RefusedError(
                ReasonCode.TOPIC_FILTER_INVALID,
                f"a filter has at most {limits.topic_bytes} bytes and {limits.topic_levels} levels",
            )
        try:
            parsed = parse_filter(text)
        except ModelError as error:
            raise RefusedError(ReasonCode.TOPIC_FILTER_INVALID, str(error)) from None
        if parsed.group is not None and options.relevance is not None:
            raise RefusedError(
                BAD, "a shared subscription has no relevance: its members take turns"
            )
        if options.aggregate is not None:
            if parsed.group is not None:
                raise RefusedError(
                    BAD, "a shared subscription does not gather: its members take turns"
                )
            if parsed.pattern[:1] == "$":
                raise RefusedError(BAD, f"what the broker tells on {text!r} is not gathered")
        if parsed.pattern[:1] == "$" and (text not in PRIVATE or name is not None):
            check_broker_topic(parsed.pattern)
        id_ = SubscriptionId(session.client_id, text, name)
        is_new = id_.text not in session.granted
        size = self._check_quotas(session, id_.text, wanted.filter, options)
        # Topics private to the client need no permission, like all of `$me`.
        if text not in PRIVATE and not allowed.unrestricted and not allowed.may_subscribe(text):
            raise RefusedError(ReasonCode.NOT_AUTHORIZED, f"a rule forbids subscribing to {text!r}")
        granted = SessionSubscription(
            wanted, identifier, name, tells(options, name, envelope), envelope, size=size
        )
        replay = wanted.retain_handling == 0 or (wanted.retain_handling == 1 and is_new)
        kept = SubscriptionState(
            text, wanted.qos, name, wanted.no_local, wanted.retain_as_published,
            wanted.retain_handling, identifier, options.texts, b"envelope" if envelope else b"",
            countable_by(allowed, options.where),
        )  # fmt: skip
        asked = subscription(session, granted, parsed, options, kept.countable)
        session.grant(asked.id, noted_if_counting(granted, asked, kept))
        if session.durable:
            state.journal.note(SubscriptionPut(id_.client_id, id_.key, kept))
        return [] if text in PRIVATE else [Subscribed(asked, replay)]

    def _check_quotas(
        self, session: Session, id_: str, topic_filter: str, options: SubscriptionOptions
    ) -> SubscriptionSize:
        """Refuse a subscription beyond a quota; return its size."""
        size = subscription_size(topic_filter, options.texts, options.where, options.from_)
        old = session.granted.get(id_)
        before = SubscriptionSize() if old is None else old.size
        more = {
            Resource.SUBSCRIPTIONS: int(old is None),
            Resource.FILTER_BYTES: size.filter_bytes - before.filter_bytes,
            Resource.FILTER_ATOMS: size.atoms - before.atoms,
            Resource.VERTICES: size.vertices - before.vertices,
        }
        self._state.quotas.check(session.usage, more)
        return size

    def _write(self, connection: Connection, packet: SubAck | UnsubAck) -> None:
        limit = connection.largest_packet or NO_LIMIT
        data = encode_within(packet, connection.version, limit)
        if data is None:
            why = "the answer would be larger than the client takes"
            self._state.close(connection, ReasonCode.PACKET_TOO_LARGE, why)
            return
        self._state.write(connection, data)


def check_broker_topic(pattern: str) -> None:
    """Refuse broker topics that cannot be subscribed to."""
    head = pattern.partition("/")[0]
    if is_planned(pattern):
        why = f"{pattern!r} is not available yet"
    elif head == "$me":
        why = f"of $me only {' and '.join(PRIVATE)} can be subscribed to, by their own names"
    elif head not in READABLE:
        why = f"there is no {head!r}; topics of the broker are {', '.join((*READABLE, *PRIVATE))}"
    else:
        return
    raise RefusedError(ReasonCode.TOPIC_FILTER_INVALID, why)


def tells(options: SubscriptionOptions, name: str | None, envelope: bool) -> bool:
    """Whether deliveries of a subscription carry metadata; with an envelope always."""
    return envelope or options.meta or (name is not None and not options.quiet)


def subscription(
    session: Session,
    granted: SessionSubscription,
    parsed: CheckedFilter,
    options: SubscriptionOptions,
    countable: SubjectPermissions | None = None,
) -> Subscription:
    """Return a subscription as the engine's model has it."""
    wanted = granted.wanted
    pattern = parsed.pattern
    if pattern.startswith(BROKER_TOPICS):
        pattern = normalize_topic(pattern)
    return Subscription(
        granted.id_of(session.client_id).text,
        session.node,
        pattern,
        options.where,
        options.from_,
        qos=wanted.qos,
        no_local=wanted.no_local,
        session="" if session.client_id == session.node else session.client_id,
        group=parsed.group,
        meta=granted.meta,
        countable=countable,
        relevance=options.relevance,
        aggregate=options.aggregate,
    )


def _reason(connection: Connection, why: list[str]) -> Properties:
    if not why or not _explains(connection):
        return NO_PROPERTIES
    return Properties(reason_string="; ".join(why)[:1000])


def _explains(connection: Connection) -> bool:
    """Whether a client gets reason strings."""
    return connection.version == MQTT_5 and connection.explains
