"""An S3 protocol server: moto's, as a process of its own on loopback."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.waiting import until

BUCKET = "nearcast"


@contextmanager
def s3_server(port: int | None = None) -> Iterator[dict[str, str]]:
    """Run the server with an empty bucket; yield the environment of its clients."""
    port = free_port() if port is None else port
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: process.poll() is not None or _listens(port), "the object store listens")
        made = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")
        urllib.request.urlopen(made, timeout=30).close()
        yield client_environment(port)
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a port of loopback that nobody has now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def client_environment(port: int) -> dict[str, str]:
    """Return the environment in which clients reach the server at a port."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True
