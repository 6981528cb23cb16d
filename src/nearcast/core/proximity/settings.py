"""Settings of a node without a broker."""

from msgspec import Struct


class ProximitySettings(Struct, frozen=True):
    """How a node announces, passes on and bounds what it keeps."""

    radio_range_m: float = 200.0
    """Proximities that reach no farther than this from the producer are covered in one hop."""
    beacon_least_s: float = 0.5
    beacon_most_s: float = 5.0
    beacons_per_crossing: float = 4.0
    """So many beacons are sent while somebody crosses a proximity."""
    mover_mps: float = 15.0
    """How fast others are assumed to move."""
    missed_beacons: float = 3.0
    """A proximity expires when nothing was heard of it for so many periods."""
    overhears: bool = True
    """Beacons heard outside a proximity are kept, so that it is known on entering."""
    gossip_m: float = 200.0
    """Members farther than this from the producer pass events on with `gossip_share`."""
    gossip_share: float = 1.0
    forward_delay_s: float = 0.0
    """Members pass on after a part of this time, so that they do not all send at once."""
    transient_s: float = 5.0
    """How long events without validity may take to arrive."""
    clock_error_s: float = 2.0
    """How far clocks may differ; events from farther in the future are refused."""
    order_wait_s: float = 0.5
    """How long an event waits for earlier ones of its producer, if their order is promised."""
    channel_bytes_s: float = 125_000.0
    """What the channel carries."""
    node_share: float = 0.25
    """The share of the channel that a node uses, and lets another node use through it."""
    type_share: float = 0.1
    """The share of the channel for a node's events of one type."""
    burst_s: float = 1.0
    """Shares may be exceeded by what they allow in this time."""
    recovers: bool = False
    """Members keep events while they are true, and send them again to who missed them."""
    held_bytes: int = 1 << 20
    """What a member keeps for others."""
    live_bytes: int = 16 << 20
    """What true events of others take in the engine, to be delivered to who matches them later."""
    proximities_most: int = 1_000
    announcements_most: int = 64
    """Of one producer."""
    seen_most: int = 100_000
    queue_most: int = 1_000
