"""The minimum cost of a durable QoS 1 message: read it, commit it with one sync, acknowledge it.

A server process that does nothing else: no topics, no access control, no log; one connection at a
time. It implements only the MQTT that the load generator needs. Run it with `python -m` and a
directory; it prints its port in the same form as the broker.
"""

import socket
import sqlite3
import sys
from pathlib import Path

from nearcast.wire.mqtt import (
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    PubAck,
    Publish,
    Sender,
    encode,
)


def main(directory: Path) -> None:
    """Serve until the process is terminated."""
    db = sqlite3.connect(directory / "floor.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE messages (number INTEGER PRIMARY KEY, value BLOB)")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"MQTT on 127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection:
                _serve(connection, db)


def _serve(connection: socket.socket, db: sqlite3.Connection) -> None:
    decoder = Decoder(sender=Sender.CLIENT)
    while data := connection.recv(1 << 16):
        for packet in decoder.feed(data):
            if isinstance(packet, Publish):
                db.execute("INSERT INTO messages (value) VALUES (?)", (data,))
                connection.sendall(encode(PubAck(packet.packet_id)))
            elif isinstance(packet, Connect):
                connection.sendall(encode(ConnAck()))
            elif isinstance(packet, Disconnect):
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
