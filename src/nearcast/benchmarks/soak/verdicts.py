"""The verdicts of a soak: rules that are stated, what was found, and whether it holds."""

from collections.abc import Callable, Sequence
from statistics import median

from msgspec import Struct

from nearcast.benchmarks.attacks.round_trips import HonestFigures
from nearcast.benchmarks.soak.ledger import LedgerFigures
from nearcast.benchmarks.soak.samples import Sample

MOST_GROWTH = 1.2
LEAST_SAMPLES = 40
"""With fewer, quarters are too short to compare."""
MOST_P99_MS, MOST_MS = 100.0, 500.0
DESCRIPTORS_LEFT, THREADS_LEFT = 10, 8
"""Files of the store and threads of its pools that are opened when they are first needed."""
MOST_STOP_S = 10.0
MEGABYTE = 1 << 20


class Verdict(Struct, frozen=True):
    """One rule."""

    name: str
    rule: str
    found: str
    holds: bool


class SoakEvidence(Struct, frozen=True):
    """What verdicts are made of."""

    samples: Sequence[Sample]
    base: Sample
    """Before any client but the honest one."""
    last: Sample
    """After all others have left."""
    honest: Sequence[HonestFigures]
    """By minute."""
    ledger: LedgerFigures
    errors: int
    """Tracebacks in what the broker wrote."""
    stopped_s: float | None


def verdicts(evidence: SoakEvidence) -> list[Verdict]:
    """All verdicts; those on growth only if the soak was long enough to tell."""
    found = [
        _acknowledged(evidence.ledger),
        _honest(evidence.honest),
        _returned("descriptors", evidence, lambda each: each.descriptors, DESCRIPTORS_LEFT),
        _returned("threads", evidence, lambda each: each.threads, THREADS_LEFT),
        Verdict("errors", "no traceback", f"{evidence.errors}", evidence.errors == 0),
        _stopped(evidence.stopped_s),
    ]
    if len(evidence.samples) >= LEAST_SAMPLES:
        found += [
            _flat("memory (MB)", evidence.samples, lambda each: each.resident_bytes / MEGABYTE),
            _flat("descriptors", evidence.samples, lambda each: each.descriptors),
            _flat("threads", evidence.samples, lambda each: each.threads),
            _flat("files", evidence.samples, lambda each: each.files),
        ]
    return found


def quarter_medians(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the second and of the last quarter."""
    quarter = len(values) // 4
    return median(values[quarter : 2 * quarter]), median(values[-quarter:])


def _flat(name: str, samples: Sequence[Sample], figure: Callable[[Sample], float]) -> Verdict:
    second, last = quarter_medians([figure(each) for each in samples])
    return Verdict(
        f"{name} flat",
        f"median of the last quarter at most {MOST_GROWTH:g} times that of the second",
        f"{second:,.0f} → {last:,.0f}",
        last <= MOST_GROWTH * second,
    )


def _returned(
    name: str, evidence: SoakEvidence, figure: Callable[[Sample], float], left: int
) -> Verdict:
    base, last = figure(evidence.base), figure(evidence.last)
    return Verdict(
        f"{name} returned",
        f"at most {left} more than before clients came",
        f"{base:,.0f} → {last:,.0f}",
        last <= base + left,
    )


def _acknowledged(ledger: LedgerFigures) -> Verdict:
    return Verdict(
        "acknowledged",
        "every acknowledged message of QoS 1 reaches a session that comes and goes",
        f"{ledger.lost:,} of {ledger.acknowledged:,} lost",
        ledger.lost == 0 and ledger.acknowledged > 0,
    )


def _honest(minutes: Sequence[HonestFigures]) -> Verdict:
    trips = [trip for each in minutes for trip in (each.plain, each.situated) if trip is not None]
    p99, most = max(each.p99_ms for each in trips), max(each.max_ms for each in trips)
    lost = sum(each.lost for each in trips)
    return Verdict(
        "honest client",
        f"none missing; p99 of every minute at most {MOST_P99_MS:g} ms, maximum {MOST_MS:g} ms",
        f"{lost:,} missing; {p99:,.1f} ms, {most:,.1f} ms",
        lost == 0 and p99 <= MOST_P99_MS and most <= MOST_MS,
    )


def _stopped(stopped_s: float | None) -> Verdict:
    found = "killed" if stopped_s is None else f"{stopped_s:.1f} s"
    holds = stopped_s is not None and stopped_s <= MOST_STOP_S
    return Verdict("stop", f"SIGTERM within {MOST_STOP_S:g} s", found, holds)
