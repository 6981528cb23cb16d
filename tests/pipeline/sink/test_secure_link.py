"""A broker that speaks TLS alone, with a certificate that no authority known here vouches for."""

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from nearcast.pipeline.errors import LinkError
from nearcast.pipeline.sink.broker_address import BrokerAddress, entrance_of
from nearcast.pipeline.sink.broker_link import close_idle
from nearcast.pipeline.sink.data_sink import SinkOptions, release, stage
from tests.support.broker_process import BrokerProcess

KEY = ec.generate_private_key(ec.SECP256R1())


def signed(name: str, issuer: str, authority: bool) -> bytes:
    """A certificate of `KEY` for a name that is not this machine's."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(KEY, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )


def hand_a_row(data: Path, **options: str) -> None:
    """Give the broker `b` an event, as a task and the driver of a query do."""
    chosen = SinkOptions.read({"path": str(data), "wait_s": "1", "epoch": "0", **options})
    row = {"broker": "b", "kind": "event", "id": "1", "subject": "news"}
    release(stage([pa.RecordBatch.from_pylist([row])], chosen), chosen)
    close_idle()


def test_a_broker_is_known_by_the_certificate_that_its_directory_says(tmp_path: Path) -> None:
    authority = signed("own authority", "own authority", authority=True)
    own, others = (signed(name, "own authority", authority=False) for name in ("b.test", "c.test"))
    secret = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain, ca_file, data = tmp_path / "chain.pem", tmp_path / "ca.pem", tmp_path / "data"
    chain.write_bytes(secret + own + authority)
    ca_file.write_bytes(authority)
    settings = {
        "broker.name": "b", "listen.host": "0.0.0.0", "listen.mqtt_port": -1, "listen.ws_port": -1,
        "listen.mqtts_port": 0, "listen.certificate": chain, "listen.key": chain,
        "doors.anonymous": "nowhere",
    }  # fmt: skip
    broker = BrokerProcess(data, settings).wait_until_it_listens()
    try:
        path = data / "brokers" / "b" / "address.json"
        told = json.loads(path.read_text())
        assert (told["scheme"], told["host"], told["everywhere"]) == ("mqtts", "127.0.0.1", True)
        assert told["certificate"] == own.decode()
        hand_a_row(data)
        # Who names an authority means that one, and the names that it vouched for.
        with pytest.raises(LinkError, match="IP address mismatch"):
            hand_a_row(data, ca_file=str(ca_file))
        # Another certificate of the same authority is another broker's.
        path.write_text(json.dumps(told | {"certificate": others.decode()}))
        with pytest.raises(LinkError, match="CERTIFICATE_VERIFY_FAILED"):
            hand_a_row(data)
    finally:
        broker.end()


def test_from_another_machine_a_broker_that_listens_everywhere_has_its_name(tmp_path: Path) -> None:
    directory = tmp_path / "brokers" / "b"
    directory.mkdir(parents=True)
    (directory / "pipeline.token").write_text("secret\n")
    told = {"host": "127.0.0.1", "port": 7, "machine": "elsewhere.example"}
    for everywhere, wanted in ((True, "elsewhere.example"), (False, "127.0.0.1")):
        text = json.dumps(told | {"everywhere": everywhere})
        (directory / "address.json").write_text(text)
        assert entrance_of(BrokerAddress(str(tmp_path), "b")).host == wanted
