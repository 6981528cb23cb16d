"""A subscription as sent to the broker: in a SUBSCRIBE, or named in JSON."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from nearcast.client.api.areas import AreaLike, encode_area
from nearcast.client.api.commands import Commands
from nearcast.client.api.exchange import Exchange
from nearcast.wire.mqtt import MQTT_5, NO_PROPERTIES, Properties, TopicFilter

NAMED = "$me/subscriptions/"


class SubscriptionRequest(Struct, frozen=True, kw_only=True):
    """A subscription: identified by its pattern, or by a name."""

    pattern: str
    where: str | None = None
    from_: str | None = None
    relevance: str | None = None
    aggregate: str | None = None
    qos: int = 1
    no_local: bool = True
    name: str | None = None

    @property
    def label(self) -> str:
        """Its label at the broker: the pattern, or the name."""
        return self.pattern if self.name is None else self.name

    async def begin(self, exchange: Exchange, commands: Commands) -> None:
        """Subscribe, or raise `RejectedError`."""
        if self.name is not None:
            await commands.state(f"{NAMED}{self.name}", self.document(exchange.version))
            return
        five = exchange.version == MQTT_5
        # A server must not give a shared event to another member because its publisher was chosen.
        no_local = self.no_local and five and not self.pattern.startswith("$")
        wanted = TopicFilter(self.pattern, self.qos, no_local=no_local)
        await exchange.subscribe(wanted, properties=self.properties(exchange.version))

    async def end(self, exchange: Exchange, commands: Commands) -> None:
        """Unsubscribe."""
        if self.name is None:
            await exchange.unsubscribe(self.pattern)
        else:
            await commands.state(f"{NAMED}{self.name}", b"")

    def properties(self, version: int) -> Properties:
        """Return the properties of a SUBSCRIBE; topics of the broker have none."""
        if version != MQTT_5 or is_of_the_broker(self.pattern):
            return NO_PROPERTIES
        options = (
            ("nc-where", self.where), ("nc-from", self.from_), ("nc-relevance", self.relevance),
            ("nc-aggregate", self.aggregate), ("nc-meta", "1"),
        )  # fmt: skip
        pairs = tuple((name, value) for name, value in options if value is not None)
        return Properties(user_properties=pairs)

    def document(self, version: int) -> bytes:
        """Return the JSON of a named subscription."""
        members: dict[str, object] = {"subject": self.pattern, "qos": self.qos}
        if self.no_local and not self.pattern.startswith("$share/"):
            members["no_local"] = True
        if self.where is not None:
            members["where"] = self.where
        if self.from_ is not None:
            members["from"] = self.from_
        if self.relevance is not None:
            members["relevance"] = self.relevance
        if self.aggregate is not None:
            members["aggregate"] = self.aggregate
        if version != MQTT_5:
            members["envelope"] = True
        return msgspec.json.encode(members)


def is_of_the_broker(pattern: str) -> bool:
    """Whether a pattern matches topics of the broker itself, which carry no metadata."""
    return pattern.startswith("$") and not pattern.startswith("$share/")


def encode_filter(where: str | Mapping[str, object] | None) -> str | None:
    """Return a filter as text: CQL2, or CQL2-JSON."""
    if where is None or isinstance(where, str):
        return where
    return msgspec.json.encode(where).decode()


def encode_relevance(relevance: str | Sequence[float] | float | None) -> str | None:
    """Return relevance as text: numbers from 0 to 1, or the text as it is."""
    if relevance is None or isinstance(relevance, str):
        return relevance
    values = (relevance,) if isinstance(relevance, int | float) else relevance
    return ",".join(repr(float(value)) for value in values)


def encode_from(area: AreaLike | None) -> str | None:
    """Return the area of a subscription as text."""
    return None if area is None else encode_area(area)
