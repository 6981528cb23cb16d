"""An attacker in a network namespace: records, replays, forges with another key, floods.

It forges as a stranger, who has another group key, and as a member, who has this one and a signing
key of its own: in the name of another, and for somebody elsewhere, as only gateways may.
"""

import sys
import time

from msgspec.structs import replace

import nearcast.adhoc.multicast_socket as sockets
from nearcast.core.proximity.messages import Beacon, EventMessage
from nearcast.wire.beacons.datagram_codec import DatagramCodec
from nearcast.wire.beacons.group_key import GroupKey, KeyRing
from nearcast.wire.beacons.signatures import Signatures, SigningKey


def main(interface: str, group: str, seconds: str) -> None:
    recorded: list[bytes] = []
    found = sockets.MulticastSocket(interface, receive=lambda data, sender: recorded.append(data))
    for each in ("beacons", group):
        found.join(each)
    size = found.largest_bytes
    stranger = DatagramCodec(KeyRing([GroupKey(b"x" * 32)], b"thief!"), size)
    ring = KeyRing([GroupKey(b"k" * 32)], b"member")
    member = DatagramCodec(ring, size, Signatures("b", SigningKey(b"b" * 32)))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    number, until = 0, time.monotonic() + float(seconds)
    beacon: Beacon | None = None
    while time.monotonic() < until:
        number += 1
        for heard in list(found._sockets):
            found._read(heard)
        for data in recorded[-5:]:
            message = member.decode(data, time.time())
            if isinstance(message, Beacon) and message.producer == "a":
                beacon = message
        forged = EventMessage(
            int(group, 16), "a", 1, number, number, "siren", time.time(), (53.35, -6.26), 1.0,
            True, b'{"lane":666}',
        )  # fmt: skip
        false: list[bytes] = [*stranger.encode(forged), *member.encode(forged)]
        if beacon is not None:
            run = replace(forged, incarnation=beacon.incarnation)
            for event in (run, replace(run, producer="b", publisher="a", event_id=str(number))):
                false += member.encode(event)
            # Would end the announcement, if it were believed.
            later = replace(beacon, number=beacon.number + 1, time=time.time(), ended=True)
            false += member.encode(replace(later, signature=b""))
        for data in (*false, b"nc\x01\x01" + bytes(300), b"?", *recorded[-20:]):
            found.send(data, group)
            found.send(data, "beacons")
        time.sleep(0.002)
    found.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
