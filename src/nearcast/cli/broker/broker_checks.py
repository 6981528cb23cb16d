"""Checks of a configuration and the environment of a broker."""

import os
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from nearcast.broker.config.configuration import ConfigurationError, load
from nearcast.broker.config.settings import Settings
from nearcast.store import StoreError, StoreReport, broker_directory, brokers_in, verify_store

SPARE_DESCRIPTORS = 100
LOW_SPACE_BYTES = 1 << 30
MOST_TOLD = 3


class Finding(Struct, frozen=True):
    """The result of one check; `advice` is empty if nothing needs to be done."""

    what: str
    found: str
    advice: str = ""
    fatal: bool = False


def broker_checks(config: Path | None, data: str | None) -> Iterator[Finding]:
    """Yield the findings for a broker with this configuration."""
    try:
        settings = load(config, os.environ, {"broker.data": data})
    except ConfigurationError as error:
        yield Finding("configuration", "broken", str(error), fatal=True)
        return
    yield Finding("configuration", "read" if config else "defaults, or nearcast.toml")
    yield check_data(Path(settings.node.data))
    yield from check_stores(settings)
    yield from check_ports(settings)
    yield check_descriptors(settings.limits.connections)


def check_data(data: Path) -> Finding:
    """Check that the data directory is writable, and has room."""
    there = data
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK):
        advice = f"{there} cannot be written: choose another with --data, or change its owner"
        return Finding("data directory", str(data), advice, fatal=True)
    free = shutil.disk_usage(there).free
    room = f"{data}, {free >> 20} MiB free"
    if free < LOW_SPACE_BYTES:
        return Finding("data directory", room, "less than 1 GiB: acknowledgements stop when full")
    return Finding("data directory", room)


def check_stores(settings: Settings) -> Iterator[Finding]:
    """Check the files of all brokers in the data directory, byte by byte."""
    data = Path(settings.node.data)
    brokers = brokers_in(data)
    if not brokers:
        yield Finding("event log", "none yet")
    for broker in brokers:
        try:
            report = verify_store(data, broker)
        except StoreError as error:
            yield Finding(f"data of {broker}", "cannot be read", str(error), fatal=True)
            continue
        if report is None:
            directory = broker_directory(data, broker)
            yield Finding(
                f"data of {broker}", "no state", f"{directory} has a log and no state: restore a "
                "backup, or move the log away", fatal=True,
            )  # fmt: skip
            continue
        yield _state_finding(broker, report)
        yield _log_finding(broker, report)


def _state_finding(broker: str, report: StoreReport) -> Finding:
    what, damage = f"state of {broker}", report.state
    if damage:
        advice = f"{damage}: restore a backup, or nearcast up --discard-damaged"
        return Finding(what, "damaged", advice, fatal=True)
    if not damage.has_checksums or damage.unverified:
        return Finding(what, "without checksums", "they are made when the broker starts")
    return Finding(what, "as it was written")


def _log_finding(broker: str, report: StoreReport) -> Finding:
    what = f"event log of {broker}"
    found = f"{report.segments} segments, {report.snapshots} snapshots"
    if report.damaged_files:
        advice = "; ".join(report.damaged_files[:MOST_TOLD])
        return Finding(what, f"{found}, {len(report.damaged_files)} damaged", advice)
    if report.gaps:
        return Finding(what, found, f"{len(report.gaps)} gaps: {report.gaps[0].reason}")
    return Finding(what, found)


def check_ports(settings: Settings) -> Iterator[Finding]:
    """Check that the ports are free."""
    listen = settings.listen
    ports = {
        "MQTT port": listen.mqtt_port, "WebSocket port": listen.ws_port,
        "HTTP port": listen.http_port, "MQTT port with TLS": listen.mqtts_port,
        "WebSocket port with TLS": listen.wss_port,
    }  # fmt: skip
    for what, port in ports.items():
        if port < 1:
            continue
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((listen.host, port))
            except OSError as error:
                advice = f"{error.strerror}: a broker may be running, or choose another port"
                yield Finding(what, f"{listen.host}:{port}", advice)
            else:
                yield Finding(what, f"{listen.host}:{port} is free")


def check_descriptors(connections: int) -> Finding:
    """Check that the limit of open files allows the configured number of connections."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{most} open files"
    if most < connections + SPARE_DESCRIPTORS:
        advice = f"limits.connections is {connections}: raise it with ulimit -n"
        return Finding("descriptors", found, advice)
    return Finding("descriptors", found)
