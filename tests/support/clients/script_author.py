"""A client that places scripts, and reads what they publish."""

import json
from collections.abc import Mapping

from nearcast.wire.mqtt import Publish, ReasonCode
from tests.support.clients.talker import Talker

COUNTER = """
def on_event(event, state):
    state["n"] = state.get("n", 0) + 1
    publish(state.get("to", "counted"), {"n": state["n"], "of": event["subject"]})

def run(args, state):
    if args:
        state.update(args)
    publish("ran", {"args": args, "n": state.get("n")})
"""


class Author(Talker):
    """A client that places scripts, by default at its own node under the name `s`."""

    def tells(self, node: str, id_: str, members: Mapping[str, object]) -> ReasonCode:
        return self.sends(f"$node/{node}/scripts/{id_}", json.dumps(members).encode())

    def adds(self, source: str, *events: object, **members: object) -> ReasonCode:
        given = {"action": "add", "source": source, "events": list(events)}
        return self.tells(self.node, "s", given | members)

    def edits(self, **members: object) -> ReasonCode:
        return self.tells(self.node, "s", {"action": "edit", **members})

    def executes(self, *args: object) -> ReasonCode:
        given = {"args": args[0]} if args else {}
        return self.tells(self.node, "s", {"action": "execute", **given})

    def message(self, topic: str) -> Publish:
        """The next message on a topic; others that come before it are kept for later."""
        kept: list[Publish] = self.__dict__.setdefault("kept", [])
        for message in kept:
            if message.topic == topic:
                kept.remove(message)
                return message
        while (message := self.client.wait_for(Publish)).topic != topic:
            kept.append(message)
        return message

    def hears(self, topic: str) -> object:
        return json.loads(self.message(topic).payload)

    def is_told(self) -> str:
        """The next error that it is told."""
        found = json.loads(self.message("$me/errors").payload)
        assert found["topic"] == f"$node/{self.node}/scripts/s"
        return str(found["error"])

    def places(self, node: str, source: str, *events: object) -> ReasonCode:
        """Add a script to a node."""
        given = {"action": "add", "source": source, "events": list(events)}
        return self.tells(node, "s", given)
