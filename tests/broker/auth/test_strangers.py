"""A broker without users that listens for other machines says who may connect."""

import asyncio
from pathlib import Path

import pytest

from nearcast.broker.auth.credentials.passwords import hashed
from nearcast.broker.auth.credentials.users_file import Account, write_users
from nearcast.broker.config.settings import AuthSection, ListenSection, NodeSection, Settings
from nearcast.broker.server import open_server

ANYWHERE = ListenSection(host="0.0.0.0", mqtt_port=0, ws_port=-1)


async def start_and_stop(data: Path, listen: ListenSection, anonymous: str) -> None:
    doors = AuthSection(anonymous=anonymous)  # type: ignore[arg-type]  # one of three words
    server = open_server(Settings(node=NodeSection(data=str(data)), listen=listen, doors=doors))
    await server.start()
    await server.stop()


@pytest.mark.parametrize(
    ("anonymous", "said"),
    [
        ("everywhere", "everyone may connect from anywhere"),
        ("loopback", "nobody may connect from another machine"),
        ("nowhere", "nobody may connect from another machine"),
    ],
)
def test_without_users_it_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, anonymous: str, said: str
) -> None:
    asyncio.run(start_and_stop(tmp_path, ANYWHERE, anonymous))
    assert said in caplog.text


def test_with_users_or_on_loopback_it_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(start_and_stop(tmp_path / "a", ListenSection(mqtt_port=0, ws_port=-1), "loopback"))
    (tmp_path / "b").mkdir()
    write_users(tmp_path / "b" / "users.toml", {"ann": Account("ann", hashed(b"secret"))})
    asyncio.run(start_and_stop(tmp_path / "b", ANYWHERE, "loopback"))
    assert "may connect" not in caplog.text
