"""An attacker in a network namespace: records, replays, forges with another key, floods."""

import sys
import time

import nearcast.adhoc.multicast_socket as sockets
from nearcast.core.proximity.messages import EventMessage
from nearcast.wire.beacons.datagram_codec import DatagramCodec
from nearcast.wire.beacons.group_key import GroupKey, KeyRing


def main(interface: str, group: str, seconds: str) -> None:
    recorded: list[bytes] = []
    found = sockets.MulticastSocket(interface, receive=lambda data, sender: recorded.append(data))
    for each in ("beacons", group):
        found.join(each)
    codec = DatagramCodec(KeyRing([GroupKey(b"x" * 32)], b"thief!"), found.largest_bytes)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    number, until = 0, time.monotonic() + float(seconds)
    while time.monotonic() < until:
        number += 1
        for heard in list(found._sockets):
            found._read(heard)
        forged = EventMessage(
            int(group, 16), "a", 1, number, number, "siren", time.time(), (53.35, -6.26), 1.0,
            True, b'{"lane":666}',
        )  # fmt: skip
        for data in (*codec.encode(forged), b"nc\x01\x01" + bytes(300), b"?", *recorded[-20:]):
            found.send(data, group)
            found.send(data, "beacons")
        time.sleep(0.002)
    found.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
