"""The sides of the situation benchmark: each is a server and an approach of its clients."""

import shutil
import socket
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from nearcast.benchmarks.broker.peers import BROKERS, Running
from nearcast.benchmarks.broker.peers import MOSQUITTO as MOSQUITTO
from nearcast.benchmarks.broker.peers import OURS as OURS
from nearcast.benchmarks.broker.peers import RECORDED as RECORDED
from nearcast.benchmarks.situation import redis
from nearcast.benchmarks.situation.orders import GRID, NEARCAST
from nearcast.benchmarks.situation.orders import REDIS as REDIS_WAY

KINDS_TOO, REDIS = "mosquitto-kinds", "redis"


class Side(NamedTuple):
    """A server, and the approach by which its clients receive the events around them."""

    describe: str
    way: str
    start: Callable[[Path], Running]
    missing: Callable[[], str | None]
    version: Callable[[], str]
    uses_cells: bool = False
    kind_in_topic: bool = False
    records: bool = False


def _broker(name: str, describe: str, way: str, kind_in_topic: bool = False) -> Side:
    broker = BROKERS[name]
    return Side(
        describe, way, broker.start, broker.missing, broker.version, way == GRID, kind_in_topic,
        broker.records,
    )  # fmt: skip


def _start_redis(directory: Path) -> Running:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly",
        "no", "--dir", str(directory), "--maxclients", "20000",
    ]  # fmt: skip
    return Running(command, directory, port)


def _redis_version() -> str:
    said = subprocess.run(
        [shutil.which("redis-server") or "redis-server", "--version"],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    return f"{said.split('v=', 1)[-1].split()[0]} (client {metadata.version('redis')})"


SIDES = {
    OURS: _broker(OURS, "one subscription each; events kept out of the log", NEARCAST),
    RECORDED: _broker(RECORDED, "the same with events in the log", NEARCAST),
    MOSQUITTO: _broker(MOSQUITTO, "cells as topics, filters at the receiver", GRID),
    KINDS_TOO: _broker(MOSQUITTO, "cells and kinds as topics", GRID, kind_in_topic=True),
    REDIS: Side(
        "a geo set to search, a channel each",
        REDIS_WAY, _start_redis, redis.missing, _redis_version,
    ),
}  # fmt: skip
