"""The view of `nearcast top`: the load of a broker, and a table of its sessions."""

from datetime import timedelta

from rich.console import Group
from rich.table import Table
from rich.text import Text

from nearcast.broker.operations.broker_load import BrokerLoad
from nearcast.broker.operations.operator_requests import SessionReport
from nearcast.broker.operations.session_table import SessionUse, SortKey

HEADER_LINES = 7
"""Lines of a terminal that hold no session."""
_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def session_view(report: SessionReport, sort: SortKey) -> Group:
    """Return a report for a terminal."""
    return Group(*_header(report.load), Text(""), _table(report.sessions, sort))


def compact(value: float) -> str:
    """Return a number in at most four characters, without trailing zeros."""
    for scale, sign in _SCALES:
        if abs(value) >= 0.9995 * scale:
            return f"{_digits(value / scale)}{sign}"
    return _digits(value)


def _digits(value: float) -> str:
    if abs(value) >= 9.95:
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0")


def _header(load: BrokerLoad) -> list[Text]:
    uptime = timedelta(seconds=int(load.uptime_s))
    ticks = load.ticks
    lines = [
        f"{load.broker}: up {uptime}, {load.connections} connected, {load.sessions} sessions, "
        f"{load.users_waiting} users waiting",
        f"CPU {load.cpu:.0%}, memory {compact(load.memory_bytes)}B, "
        f"{compact(load.waiting_for_disk_bytes)}B waiting for the disk",
        f"Packets {compact(load.packets_in_per_s)}/s in, {compact(load.packets_out_per_s)}/s out; "
        f"bytes {compact(load.bytes_in_per_s)}/s in, {compact(load.bytes_out_per_s)}/s out",
        f"Ticks {compact(load.ticks_per_s)}/s: p50 {_ms(ticks.p50_s)}, p99 {_ms(ticks.p99_s)}, "
        f"max {_ms(ticks.max_s)}; in a minute {_ms(load.slowest_tick_s)}, "
        f"loop late by {_ms(load.longest_loop_delay_s)}; {load.slow_ticks} slow",
    ]
    shown = [Text(_printable(line), no_wrap=True, overflow="ellipsis") for line in lines]
    if load.failing is not None:
        shown.append(Text(f"Nothing can be kept: {_printable(load.failing)}", style="red"))
    return shown


def _ms(seconds: float) -> str:
    return f"{compact(1_000 * seconds)} ms"


def _table(sessions: list[SessionUse], sort: SortKey) -> Table:
    table = Table(box=None, pad_edge=False, header_style="reverse")
    table.add_column("client", no_wrap=True, overflow="ellipsis", min_width=8)
    table.add_column("user", no_wrap=True, overflow="ellipsis")
    numbers = ["cpu %", "in/s", "out/s", "B in/s", "B out/s"]
    if sort is SortKey.DELIVERIES:
        numbers.append("copies/s")
    elif sort is SortKey.FILTERS:
        numbers.append("filters %")
    for name in (*numbers, "queue", "B queued", "subs"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True, overflow="ellipsis")
    table.add_column("address", no_wrap=True, overflow="ellipsis")
    for each in sessions:
        table.add_row(*(Text(_printable(cell)) for cell in _cells(each, sort)))
    return table


def _cells(each: SessionUse, sort: SortKey) -> list[str]:
    numbers = [
        100 * each.cpu,
        each.packets_in_per_s,
        each.packets_out_per_s,
        each.bytes_in_per_s,
        each.bytes_out_per_s,
    ]
    if sort is SortKey.DELIVERIES:
        numbers.append(each.deliveries_per_s)
    elif sort is SortKey.FILTERS:
        numbers.append(100 * each.filters_cpu)
    numbers += [each.queued, each.queued_bytes, each.subscriptions]
    user = "-" if each.user is None else each.user
    return [each.client, user, *map(compact, numbers), each.state, each.address or "-"]


def _printable(text: str) -> str:
    """Replace what could control the terminal: names are chosen by clients."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
