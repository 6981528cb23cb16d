"""What a broker decided can be decided again elsewhere, from its log alone.

A broker runs, records every input and to whom each event went, and stops. A player, which is the
same engine, then goes through the log as the data pipeline does in Spark, and comes to the same
answers: also for Ben, who walked into earshot between two events.

Prints:

    recorded: bus/7 1 to ann
    recorded: bus/7 2 to ann, ben
    decided:  bus/7 1 to ann
    decided:  bus/7 2 to ann, ben
"""

import asyncio
import tempfile
from collections.abc import Iterable
from pathlib import Path

import nearcast as nc
from nearcast.broker.config.settings import ListenSection, NodeSection, RecordSection, Settings
from nearcast.broker.server import open_server
from nearcast.pipeline.decide.player import Player
from nearcast.store import DELIVERY, Gap, LogReader, Row, broker_directory, recipients_of, rows_of


async def live(data: str) -> None:
    """Let a bus pass two people."""
    settings = Settings(
        node=NodeSection(data=data),
        listen=ListenSection(mqtt_port=0, ws_port=-1),
        record=RecordSection(deliveries=True),
    )
    server = open_server(settings)
    await server.start()
    url = f"mqtt://127.0.0.1:{server.port}"
    async with (
        nc.connect(url, node="ann") as ann,
        nc.connect(url, node="ben") as ben,
        nc.connect(url, node="bus") as bus,
    ):
        await ann.move(53.3500, -6.2600)
        await ben.move(53.4500, -6.2600)
        await bus.move(53.3510, -6.2600)
        near = "distance(me, event) < 800"
        async with ann.subscribe("bus/#", where=near), ben.subscribe("bus/#", where=near):
            await bus.publish("bus/7", 1)
            await ben.move(53.3520, -6.2600)
            await bus.publish("bus/7", 2)
    await server.stop()


def rows_in(data: str) -> list[Row]:
    """Return all rows of the broker's log."""
    log = LogReader(broker_directory(Path(data), "local") / "log")
    return [row for part in log.read() if not isinstance(part, Gap) for row in rows_of(part)]


def tell(how: str, subject: str | None, payload: bytes | None, sessions: Iterable[str]) -> None:
    """Print who gets an event."""
    print(f"{how:9} {subject} {(payload or b'').decode()} to {', '.join(sorted(sessions))}")


def main() -> None:
    """Live once, decide twice."""
    with tempfile.TemporaryDirectory() as data:
        asyncio.run(live(data))
        rows = rows_in(data)
    payloads = {row.event_id: row.payload for row in rows if row.kind == "event"}
    for row in rows:
        if row.kind == DELIVERY:
            to = [session for session, *_ in recipients_of(row)]
            tell("recorded:", row.subject, payloads[row.event_id], to)
    decided: dict[str, tuple[str, bytes, list[str]]] = {}
    for played in Player("local").decide(rows):
        for copy in (copy for sent in played.sent for copy in sent.deliveries):
            event = copy.event
            decided.setdefault(event.id, (event.subject, event.payload, []))[2].append(copy.owner)
    for subject, payload, to in decided.values():
        tell("decided:", subject, payload, to)


if __name__ == "__main__":
    main()
