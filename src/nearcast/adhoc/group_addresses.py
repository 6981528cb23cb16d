"""The multicast addresses of groups: the 24 bits of a group fit 239.0.0.0/8 exactly.

239/8 is administratively scoped: such datagrams stay where they are. In IPv6 groups are transient
addresses of the link.
"""

from typing import Literal

Family = Literal[4, 6]

BEACONS = "beacons"
"""The group in which everybody listens for beacons."""
PORT = 7_427
_BEACONS = {4: "239.255.110.99", 6: "ff12::6e63:beac"}


def group_name(group: int) -> str:
    """Return the name of a proximity group."""
    return f"{group:06x}"


def group_address(group: str, family: Family) -> str:
    """Return the multicast address of a group, by its name."""
    if group == BEACONS:
        return _BEACONS[family]
    number = int(group, 16)
    high, middle, low = number >> 16, number >> 8 & 0xFF, number & 0xFF
    if family == 4:
        return f"239.{high}.{middle}.{low}"
    return f"ff12::6e63:{high:x}:{middle:02x}{low:02x}"
