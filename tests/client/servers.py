"""Real servers for a client: ours, mosquitto where it is installed, and a proxy that cuts."""

import asyncio
import contextlib
import datetime
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Coroutine
from ipaddress import ip_address
from pathlib import Path
from random import Random

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec.structs import replace

from nearcast.broker.config.settings import ListenSection, NodeSection, Settings
from nearcast.broker.server import Server, open_server
from nearcast.client.link.backoff import Backoff
from nearcast.client.link.connection import ClientConnection
from nearcast.wire.mqtt import Publish

WAIT_S = 30.0
SOON = Backoff(first_s=0.02, most_s=0.2)
# Where Debian puts it, outside the path of a user.
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


def run(work: Coroutine[object, object, None]) -> None:
    """Run a test's coroutine, for as long as it may take at most."""

    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await work

    asyncio.run(bounded())


async def take(reader: ClientConnection, count: int) -> list[Publish]:
    """Read so many messages, or fewer if the connection is closed."""
    found: list[Publish] = []
    async for message in reader.messages():
        found.append(message)
        if len(found) == count:
            break
    return found


@contextlib.asynccontextmanager
async def nearcast(directory: Path, listen: ListenSection | None = None) -> AsyncIterator[Server]:
    """Run our broker with its state in a directory."""
    settings = Settings(
        node=NodeSection(data=str(directory / "data")),
        listen=listen or ListenSection(mqtt_port=0, ws_port=-1),
    )
    server = open_server(settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def again(server: Server) -> ListenSection:
    """Where a server listened, so that the next one listens there too."""
    return replace(server.settings.listen, mqtt_port=server.port)


class Mosquitto:
    """A mosquitto process that can be killed and started again; it remembers nothing."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert MOSQUITTO is not None
        config = self._directory / "mosquitto.conf"
        # With its limit of 20, version 2.0.11 loses messages where QoS 1 and 2 are mixed.
        config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\n"
            "max_inflight_messages 0\nmax_queued_messages 0\n"
        )
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            time.sleep(0.02)
        raise TimeoutError("mosquitto does not listen")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(WAIT_S)
            self._process = None


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class CuttingProxy:
    """Carries connections to a server; cuts each after some bytes one way, while it is to."""

    def __init__(self, port: int, seed: int, most_bytes: int) -> None:
        self._to = port
        self._chance = Random(seed)
        self._most = most_bytes
        self._ends: set[asyncio.StreamWriter] = set()
        self._served: set[asyncio.Task[None] | None] = set()
        self.cutting = True
        self.cuts = 0

    async def __aenter__(self) -> "CuttingProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for end in self._ends:
            end.transport.abort()
        while self._served:
            await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._served.add(task)
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._to)
        ends = {writer, to_writer}
        self._ends |= ends
        limits = [self._chance.randrange(100, self._most), 1 << 40]
        self._chance.shuffle(limits)
        ways = [
            asyncio.create_task(self._carry(reader, to_writer, limits[0])),
            asyncio.create_task(self._carry(to_reader, writer, limits[1])),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.transport.abort()
        await asyncio.wait(ways)
        self._ends -= ends
        self._served.discard(task)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(4096):
                cut = self.cutting and len(data) >= left
                writer.write(data[:left] if cut else data)
                await writer.drain()
                left -= len(data)
                if cut:
                    self.cuts += 1
                    return


def certificate(directory: Path) -> tuple[Path, Path, ssl.SSLContext]:
    """Make a certificate of this machine; return its file, its key's, and who trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nearcast test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = directory / "broker.pem", directory / "broker.key"
    files[0].write_bytes(made.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files[1].chmod(0o600)
    return *files, ssl.create_default_context(cafile=str(files[0]))
