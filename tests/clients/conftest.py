"""A broker with every kind of listener, users, and a certificate of its own making."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.broker.auth.credentials.passwords import hashed
from nearcast.broker.auth.credentials.users_file import Account, write_users
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import make_certificate


@pytest.fixture(scope="package")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine; its key is beside it as `key.pem`."""
    return make_certificate(tmp_path_factory.mktemp("certificate")).file


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[BrokerProcess]:
    """A broker that all real clients share; user ann has the password `secret`."""
    directory = tmp_path_factory.mktemp("clients")
    users = directory / "users.toml"
    write_users(users, {"ann": Account("ann", hashed(b"secret"))})
    settings = {
        "listen.mqtts_port": 0,
        "listen.wss_port": 0,
        "listen.certificate": certificate,
        "listen.key": certificate.with_name("key.pem"),
        "doors.users": users,
        "limits.connect_within_s": 3.0,
    }
    running = BrokerProcess(directory / "data", settings).wait_until_it_listens()
    yield running
    said = running.said
    code = running.stop()
    assert "Traceback" not in said
    assert code == 0
