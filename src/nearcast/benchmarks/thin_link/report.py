"""Prints the figures of a thin-link run."""

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from nearcast.benchmarks.thin_link.benchmark import WANTED_RATIO, ThinLinkResult


def show(result: ThinLinkResult, console: Console) -> None:
    """Print all of it."""
    settings, buffers, machine = result.settings, result.buffers, result.machine
    heading = (
        f"Urgent events on a link of {settings.kbps:g} kb/s that is offered"
        f" {result.offered_kbps:,.0f} kb/s of other messages, up to"
        f" {settings.largest_bytes:,} bytes each, QoS 1.\n"
        f"{machine['processor']}, {machine['cores']} cores.\n"
        f"Buffers beyond the broker's socket: SO_RCVBUF {buffers.receive_bytes:,} and SO_SNDBUF"
        f" {buffers.send_bytes:,} of the proxy, SO_RCVBUF {buffers.client_receive_bytes:,} of the"
        f" client, as given; together they held {buffers.held_bytes:,} bytes.\n"
    )
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    columns = ("urgent", "p50 ms", "p99 ms", "max ms", "others", "while thin", "lost", "doubled")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for name, each in result.clients.items():
        table.add_row(
            name, f"{each.urgent:,}", f"{each.p50_ms:,.0f}", f"{each.p99_ms:,.0f}",
            f"{each.max_ms:,.0f}", f"{each.others:,}", f"{each.arrived_thin:,}",
            f"{each.lost:,}", f"{each.doubled:,}",
        )  # fmt: skip
    summary = (
        f"Aim with relevance: p99 {result.aim_ms:,.0f} ms, one round trip"
        f" ({result.round_trip_ms:.0f} ms) and 16 KiB at the rate of the link.\n"
        f"Without relevance p99 is {result.ratio:.1f} times as long (aim: {WANTED_RATIO:g})."
    )
    if result.classified_s is not None:
        summary += (
            f"\nThe first message of low priority came {result.classified_s:.1f} s after the load"
            " began; urgent events count from then on."
        )
    failures = [Text(f"Failed: {what}") for what in result.failures]
    console.print(Group(Text(heading), table, Text(summary), *failures))
