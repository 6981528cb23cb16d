"""The bridge: exchanges messages with another MQTT broker.

It adds the situation to an existing system: messages of the other broker are published here by node
`bridge-NAME`, where subscriptions with filters and areas match them. It reconnects automatically.
Meanwhile outgoing messages wait in a session of this broker, on disk and within its limits, and
incoming ones in a session of the other broker.
"""

import asyncio
import logging
import re
import ssl
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from nearcast.broker.bridge.bridge_connection import ANSWER_WITHIN_S, BridgeConnection
from nearcast.broker.bridge.bridge_terms import BridgeCounters, BridgeTerms, opening
from nearcast.broker.config.configuration import ConfigurationError
from nearcast.broker.config.settings import BridgeSection as Section
from nearcast.broker.net.links import is_loopback
from nearcast.broker.net.local_link import LocalLink, reserve
from nearcast.broker.operations.metrics import Health
from nearcast.broker.sessions.session_lifecycle import FOREVER
from nearcast.client.errors import AddressError, ConnectionLostError, RejectedError
from nearcast.client.link.address import Address, parse_address
from nearcast.client.link.backoff import Backoff
from nearcast.client.link.transports import open_transport
from nearcast.logs import log_event
from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5, Disconnect, Properties, ReasonCode

if TYPE_CHECKING:
    from nearcast.broker.server import Server

LEAVE_WITHIN_S = 2.0
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")

log = logging.getLogger("nearcast.broker")


class Bridge:
    """The link to one other broker; created before the server listens, started after."""

    def __init__(self, server: "Server", backoff: Backoff | None = None) -> None:
        section = server.settings.bridge
        self.address = _address(section)
        self._server = server
        self._tls = _tls(section)
        self._backoff = backoff or Backoff()
        self._chance = Random()
        self._terms = BridgeTerms(
            node=f"bridge-{section.name or _UNFIT.sub('-', self.address.host)}",
            # The other broker has a session for this client id, so it must be stable.
            client_id=f"nearcast-{server.settings.node.name}",
            incoming=section.incoming,
            outgoing=section.outgoing,
            qos=section.qos,
            username=section.user or self.address.username,
            password=_password(section, self.address),
        )
        self._tally = BridgeCounters()
        self._connections = 0
        self._crossing: BridgeConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._fresh = True
        self._exchange = False
        self._online = False
        self._stopping = False
        self._why = "not yet connected"
        reserve(server, self.node)

    @property
    def node(self) -> str:
        """Its node name and client id in this broker."""
        return self._terms.node

    @property
    def online(self) -> bool:
        """Whether the other broker is connected."""
        return self._online

    async def start(self) -> None:
        """Start connecting; from now on outgoing messages are queued for the other broker."""
        server, terms = self._server, self._terms
        if self.address.port in server.ports.values() and (
            self.address.host in ("localhost", server.settings.listen.host)
            or is_loopback(self.address.host)
        ):
            raise ConfigurationError([f"bridge.url: {self.address} is this broker itself"])
        # Without a session here, a session there would continue from an unknown state. It is ended
        # by a separate connection: a mosquitto that restarts does not keep one with a clean start.
        self._fresh = terms.node not in server.hub.sessions
        properties = Properties(session_expiry_interval=FOREVER, receive_maximum=1)
        packets = opening(
            server, terms.node, terms.outgoing, terms.qos, retain_handling=2, properties=properties
        )
        LocalLink(server, terms.node, _Nobody()).send([*packets, Disconnect()])
        self._task = asyncio.create_task(self._stay_connected(), name="bridge")

    async def stop(self) -> None:
        """Disconnect; both sides keep their queued messages."""
        if self._task is None:
            return
        self._stopping = True
        crossing = self._crossing
        if crossing is not None:
            crossing.leave()
            await asyncio.wait([crossing.gone], timeout=LEAVE_WITHIN_S)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._online = False

    def statistics(self) -> dict[str, float]:
        """Counts of forwarded messages, and of messages waiting to be sent."""
        tally, session = self._tally, self._server.hub.sessions.get(self.node)
        waits = {} if session is None else session.statistics()
        return {
            "online": float(self._online),
            "connections_total": self._connections,
            "in_total": tally.in_total,
            "out_total": tally.out_total,
            "ignored_total": tally.ignored_total,
            "refused_total": tally.refused_total,
            "waiting": waits.get("waiting", 0),
            "waiting_bytes": waits.get("waiting_bytes", 0),
            "in_flight": waits.get("in_flight", 0),
            "dropped_total": waits.get("dropped", 0),
        }

    def health(self) -> Health:
        """The state of the bridge; the broker itself works without it."""
        if not self._online:
            return Health("degraded", f"{self.address}: {self._why}")
        if self._crossing is not None and not self._crossing.sends:
            return Health("degraded", _ECHOES)
        return Health("ok", str(self.address))

    async def _stay_connected(self) -> None:
        attempt, delay_s, version = 0, 0.0, MQTT_5
        loop = asyncio.get_running_loop()
        while True:
            began, met_before, was_fresh = loop.time(), self._connections, self._fresh
            why = await self._cross(version)
            if self._stopping:
                return
            met = self._connections > met_before
            if why is _TOO_NEW and version == MQTT_5:
                version = MQTT_3_1_1
                continue
            if was_fresh and not self._fresh:
                continue
            version = MQTT_5
            self._away(why, again=met)
            attempt = 0 if met and loop.time() - began > delay_s else attempt + 1
            delay_s = self._backoff.delay_s(attempt, self._chance)
            await asyncio.sleep(delay_s)

    async def _cross(self, version: int) -> str:
        """Use one connection until it ends; return the reason."""
        crossing = BridgeConnection(
            self._server, self._terms, self._tally, version=version,
            fresh=self._fresh, exchange=self._exchange, met=self._met,
        )  # fmt: skip
        met_before = self._connections
        try:
            transport = await open_transport(self.address, crossing, self._tls, ANSWER_WITHIN_S)
            self._crossing = crossing
            crossing.begin(transport)
            return await crossing.gone
        except RejectedError as error:
            if error.reason_code is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
                return _TOO_NEW
            return f"it says: {error}"
        except ConnectionLostError as error:
            # It starts with the address, which is logged as a field.
            return str(error).removeprefix(f"{self.address}").lstrip(": ")
        finally:
            self._crossing = None
            if crossing.cleared:
                self._fresh = False
            if self._connections > met_before:
                self._exchange = not crossing.exchanged
            crossing.end("stopped")

    def _met(self) -> None:
        """Handle a new connection to the other broker."""
        assert self._crossing is not None
        self._online = True
        self._connections += 1
        five = self._crossing.version == MQTT_5
        log_event(
            log, logging.INFO, "the bridge is connected", client=self.node,
            remote=self.address, mqtt="5" if five else "3.1.1",
        )  # fmt: skip
        if not self._crossing.sends:
            log_event(
                log, logging.WARNING, "the bridge sends nothing", client=self.node, why=_ECHOES
            )

    def _away(self, why: str, *, again: bool) -> None:
        """Log the loss of the other broker once, and again only for another reason."""
        if again or why != self._why:
            log_event(
                log, logging.WARNING, "the bridge is not connected; it tries again",
                client=self.node, remote=self.address, why=why,
            )  # fmt: skip
        self._online, self._why = False, why


_TOO_NEW = "it speaks neither MQTT 5 nor 3.1.1"
_ECHOES = (
    "the other broker speaks only MQTT 3.1.1, by which messages that are sent to it would come "
    "back; let bridge.incoming and bridge.outgoing have no subjects in common"
)


class _Nobody:
    """Drops the output of this broker while the other is not connected."""

    def receive(self, data: bytes) -> None:
        pass

    def let_go(self) -> None:
        pass

    def wait(self, wanted: bool) -> None:
        pass


def _address(section: Section) -> Address:
    try:
        return parse_address(section.url)
    except AddressError as error:
        raise ConfigurationError([f"bridge.url: {error}"]) from None


def _tls(section: Section) -> ssl.SSLContext | None:
    if not section.ca_file:
        return None
    try:
        return ssl.create_default_context(cafile=section.ca_file)
    except (OSError, ssl.SSLError) as error:
        why = f"bridge.ca_file: {section.ca_file} cannot be used: {error.strerror or error}"
        raise ConfigurationError([why]) from None


def _password(section: Section, address: Address) -> bytes | None:
    if not section.password_file:
        return None if address.password is None else address.password.encode()
    try:
        lines = Path(section.password_file).read_bytes().splitlines()
    except OSError as error:
        why = f"bridge.password_file: {section.password_file} cannot be read: {error.strerror}"
        raise ConfigurationError([why]) from None
    return lines[0] if lines else b""
