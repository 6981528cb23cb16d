"""Prints what was pushed to clients that pass messages on."""

from rich.console import Console

from nearcast.benchmarks.peers.benchmark import PeerBenchResult


def show(result: PeerBenchResult, console: Console) -> None:
    """Print all of it."""
    settings = result.settings
    everybody = settings.peers + settings.direct
    console.print(
        f"{everybody:,} clients over real sockets in {settings.processes + 1} processes: "
        f"{settings.peers:,} pass messages on in chains of {settings.percent:g} % "
        f"(degree {settings.degree}), {settings.direct:,} do not.\n"
        f"{result.machine['processor']}, {result.machine['cores']} cores.\n"
    )
    console.print(f"pushes to peers, each message: {', '.join(map(str, result.pushes))}")
    console.print(f"chains of a message: {result.chains}; direct: {settings.direct}")
    console.print(f"sent again: {result.sent_again}")
    console.print(f"got everything exactly once: {result.whole:,} of {everybody:,}")
    console.print(f"until all confirmed, s: {', '.join(f'{each:.1f}' for each in result.seconds)}")
