"""A broker with every kind of listener, users, and a certificate of its own making."""

import datetime
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from nearcast.broker.auth.passwords import hashed
from nearcast.broker.auth.users_file import Account, write_users
from tests.support.broker_process import BrokerProcess


@pytest.fixture(scope="package")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this machine that signs itself; its key is beside it as `key.pem`."""
    directory = tmp_path_factory.mktemp("certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    local = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(local), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (directory / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    path = directory / "certificate.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


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
