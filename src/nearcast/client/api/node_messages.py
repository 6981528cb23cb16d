"""What a node sends: position, context, events, announcements, relationships, places, policies.

Every call returns once the broker has it, and then it is in force for all that the broker receives
afterwards, from any client. Every call raises `RejectedError` with the broker's reason if it
refuses, `QueueFullError` if too much waits to be sent, and `ConnectionLostError` when the
connection is closed. While the broker is not connected, calls wait.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from secrets import token_hex
from typing import Literal
from urllib.parse import quote

import msgspec

from nearcast.client.api.areas import AreaLike, HasNode, PositionLike, encode_area, geometry_json
from nearcast.client.api.commands import Commands
from nearcast.client.api.event_options import Payload, encode_event_options
from nearcast.core.model.geometry.position import plain, position
from nearcast.core.model.subject import check_subject
from nearcast.wire.mqtt import MQTT_5
from nearcast.wire.mqtt.properties import PropertyPairs


class NodeMessages:
    """The sending half of a node."""

    def __init__(self, commands: Commands, version: int) -> None:
        self._commands = commands
        self._version = version
        run = token_hex(6)
        self._event_ids = (f"{run}-{number}" for number in count(1))

    async def move(self, lat: float, lon: float, *, qos: int = 1) -> None:
        """Send the node's position; QoS 0 has no acknowledgement.

        Raises `ModelError` for an invalid position, and the node stays where it was.
        """
        at = position(lat, lon)
        text = f"{plain(at.lat)},{plain(at.lon)}"
        await self._commands.send("$me/position", text.encode(), qos=qos)

    async def context(self, **attributes: object) -> None:
        """Change the node's context; attributes not named stay, None removes one."""
        await self.update(attributes)

    async def update(self, patch: Mapping[str, object]) -> None:
        """Change the node's context by a JSON merge patch; None removes a member."""
        await self._commands.send("$me/context", msgspec.json.encode(patch))

    async def announce(self, subject: str, *, to: AreaLike) -> None:
        """Set the area of nodes that this node's events on a subject concern.

        It applies to that exact subject, until `unannounce` or the end of the session. An event
        with a target of its own keeps it.
        """
        topic = f"$me/announcements/{check_subject(subject)}"
        await self._commands.state(topic, msgspec.json.encode({"to": encode_area(to)}))

    async def unannounce(self, subject: str) -> None:
        """End an announcement; later events concern all nodes."""
        await self._commands.state(f"$me/announcements/{check_subject(subject)}", b"")

    async def publish(
        self,
        subject: str,
        payload: Payload = None,
        *,
        qos: int = 1,
        retain: bool = False,
        at: PositionLike | str | None = None,
        to: AreaLike | None = None,
        valid: float | None = None,
        object: str | None = None,  # noqa: A002  # the word of the contract
        priority: int | None = None,
        deadline: float | None = None,
        people: int | None = None,
        time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002
        properties: PropertyPairs = (),
    ) -> str | None:
        """Publish an event, and return its id once the broker has it.

        A mapping or a list is sent as JSON, and the members of a JSON object are attributes that
        filters see; text and bytes are sent unchanged. `at` is the position of the event, if that
        is not the node's; `to` an area whose nodes it concerns; `valid` for how many seconds it
        stays live, 0 to withdraw it; `object` the key of the thing that it is a version of;
        `deadline` the seconds within which it should be sent to others, after which one of QoS 0 is
        dropped; `people` the smallest number of people of whom anybody may hear together: nobody
        sees the event by itself; `time` when it happened.

        An event gets an `id` that makes it idempotent: sent again after a loss, it is not delivered
        twice. With QoS 0, and with MQTT 3, it has one only if you give it, and None is returned.
        With QoS 0 it returns once the event is queued.
        """
        if id is None and qos and self._version == MQTT_5:
            id = next(self._event_ids)  # noqa: A001
        options = encode_event_options(
            at=at,
            to=to,
            valid=valid,
            object=object,
            priority=priority,
            deadline=deadline,
            people=people,
            time=time,
            id=id,
        )
        packed = options.pack(check_subject(subject), payload, self._version, properties)
        await self._commands.send(
            packed.topic, packed.payload, qos=qos, retain=retain, properties=packed.properties
        )
        return id

    async def relate(
        self,
        name: str,
        members: Sequence[str | HasNode] | Mapping[str, float],
        *,
        within: float | None = None,
        beyond: float | None = None,
        need: Literal["all", "any"] | int = "all",
        of: str | None = None,
        where: str | Mapping[str, object] | None = None,
    ) -> None:
        """Define a named relationship between nodes; `relation` follows its state.

        It is near while all members, every two, are `within` so many metres of each other; with
        `need` "any" while two are, with a number while so many are. With `beyond` it is apart while
        all are farther than that from each other. Instead of both, `members` can give each node
        metres of its own. `of` names a number in contexts to compare in place of positions, `where`
        is a filter over contexts: who does not meet it counts as being nowhere. It is kept until
        `unrelate`.
        """
        document: dict[str, object] = {"need": need}
        if isinstance(members, Mapping):
            document["members"] = dict(members)
        else:
            document["members"] = [e if isinstance(e, str) else e.node for e in members]
        options = {"within": within, "beyond": beyond, "of": of, "where": where}
        document |= {word: value for word, value in options.items() if value is not None}
        topic = f"$relate/{check_subject(name)}"
        await self._commands.send(topic, msgspec.json.encode(document))

    async def unrelate(self, name: str) -> None:
        """End a relationship; whoever was told near is told so."""
        await self._commands.send(f"$relate/{check_subject(name)}", b"")

    async def define_place(self, kind: str, name: str, geometry: AreaLike) -> None:
        """Define a named place for all nodes: a polygon, several, or GeoJSON."""
        await self._commands.send(place_topic(kind, name), geometry_json(geometry), retain=True)

    async def remove_place(self, kind: str, name: str) -> None:
        """Remove a named place."""
        await self._commands.send(place_topic(kind, name), b"", retain=True)

    async def set_policy(
        self, kind: str, name: str, document: Mapping[str, object] | str | bytes
    ) -> None:
        """Set a policy of the broker: the members of a JSON object, or JSON or XML as text."""
        if isinstance(document, Mapping):
            document = msgspec.json.encode(document)
        payload = document.encode() if isinstance(document, str) else document
        await self._commands.send(policy_topic(kind, name), payload, retain=True)

    async def remove_policy(self, kind: str, name: str) -> None:
        """Remove a policy of the broker."""
        await self._commands.send(policy_topic(kind, name), b"", retain=True)


def policy_topic(kind: str, name: str) -> str:
    """Return the topic that sets a policy."""
    return f"$policy/{quote(kind, safe='')}/{quote(name, safe='')}"


def place_topic(kind: str, name: str) -> str:
    """Return the topic that defines a place."""
    return f"$place/{quote(kind, safe='')}/{quote(name, safe='')}"
