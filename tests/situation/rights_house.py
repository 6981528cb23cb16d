"""A real broker with users and rules in a directory; rules change while it runs or is stopped."""

import base64
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from nearcast.broker.config.settings import AuthSection, Settings
from nearcast.broker.operations.metrics import Metrics
from nearcast.console.http import make_app
from nearcast.console.server import HttpServer
from nearcast.store import broker_directory
from nearcast.wire.mqtt import MQTT_5, Connect, Properties, Will
from tests.support.accounts import SECRET, with_users
from tests.support.clients.http_requests import Answer, ask
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker

LASTING_S = 100_000


class UserTalker(Talker):
    """Someone who came with a name and a password, and whose session lasts."""

    def __init__(
        self,
        broker: RunningBroker,
        user: str,
        version: int = MQTT_5,
        will: Will | None = None,
        receive_maximum: int | None = None,
    ) -> None:
        self.client = broker.open(version)
        self.version = version
        self.name = self.node = user
        self.reason = None
        lasting = Properties(
            session_expiry_interval=LASTING_S if version == MQTT_5 else None,
            receive_maximum=receive_maximum,
        )
        packet = Connect(user, version, False, will=will, properties=lasting)
        packet = replace(packet, username=user, password=SECRET[user])
        answer = self.client.connect(packet)
        assert not answer.reason_code.failed, answer
        self.returned = answer.session_present


class RightsHouse:
    """The broker, its files, and who is connected."""

    def __init__(self, data: Path, rules: str = "", superusers: Sequence[str] = ()) -> None:
        self.data = data
        self.write(rules)
        with_users(data, *superusers)
        self.start()

    def write(self, rules: str) -> None:
        """Change the file of rules; the broker is not told."""
        (self.data / "rules.toml").write_text(rules)

    def change(self, rules: str) -> None:
        """Put other rules in force."""
        self.write(rules)
        self.broker.reload()

    def start(self) -> None:
        settings = Settings(doors=AuthSection(rules=str(self.data / "rules.toml")))
        self.broker = RunningBroker(settings, self.data)

    def stop(self) -> None:
        self.broker.stop()

    def comes(
        self,
        user: str,
        version: int = MQTT_5,
        will: Will | None = None,
        receive_maximum: int | None = None,
    ) -> UserTalker:
        return UserTalker(self.broker, user, version, will, receive_maximum)

    def asks(self, user: str, path: str) -> Answer:
        """Ask the broker over HTTP, as a user."""
        told = base64.b64encode(user.encode() + b":" + SECRET[user]).decode()
        server = self.broker.server
        log = broker_directory(self.data, "local") / "log"

        async def ask_it() -> Answer:
            app = make_app(Metrics({}), {}, server.settings, log, server)
            async with HttpServer(app, port=0) as http:
                return await ask(http.port, path, headers={"Authorization": f"Basic {told}"})

        return self.broker.run(ask_it())

    def lose(self, talker: Talker) -> None:
        self.broker.lose(talker.client)


def denying(*topics: str, who: str = "user:alice", action: str = "all") -> str:
    """A rule that forbids topics, to alice unless said."""
    listed = ", ".join(f'"{topic}"' for topic in topics)
    return (
        f'[[rule]]\npermission = "deny"\nwho = "{who}"\naction = "{action}"\ntopics = [{listed}]\n'
    )
