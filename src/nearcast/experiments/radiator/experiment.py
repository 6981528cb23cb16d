"""`nearcast experiment radiator`: seed E's Tables 2, 3 and 4, Figures 3 and 4, and what is best.

The text does not say who receives and for how long: here every message goes to all clients, and
the messages come at a steady mean rate. One number is calibrated: the time that the server takes
for a push, so that single encoded messages sent directly lag by the text's 42 s. All else follows.
"""

import time
from collections.abc import Sequence

import zstandard
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from nearcast.core.gathering.needs.thresholds import Threshold
from nearcast.core.propagation.chains.propagation_cost import (
    LinkModel,
    PeerModel,
    least_bytes,
)
from nearcast.experiments.experiment_result import (
    Curve,
    ExperimentFigure,
    ExperimentResult,
    ExperimentRow,
    Progress,
)
from nearcast.experiments.radiator.application import (
    Clients,
    ContextMessage,
    gathered,
    some_clients,
    some_messages,
    trained_dictionary,
)
from nearcast.experiments.radiator.propagation_run import (
    EncodedMessage,
    Propagation,
    RunResult,
    encoded_messages,
    run_degrees,
    run_propagation,
)
from nearcast.wire.encoding.content_codings import ALL, Dictionary, encode_payload

NAME = "radiator"
CHAIN = 1
"""The degree of the text's chains."""
VOLUMES = (1, 20, 50)
PAPER_LAG_S = 42.0
PAPER_TABLE_2 = {"uncompressed": (1751, 41), 1: (1324, 42), 20: (1222, 34), 50: (797, 36)}
PAPER_TABLE_3 = {0.0: 42, 0.1: 70, 1.0: 74, 5.0: 223, 10.0: 295}
PAPER_TABLE_4 = {1: 74, 20: 41, 50: 53}
PAPER_SHARES = {0.02: 74.0, 1.0: 4.4}
"""Outbound bytes by chain size, per cent of direct."""
EVERYBODY = 1 << 20
_STREAM_LEVEL = 19


class RadiatorSettings(Struct, frozen=True):
    """What is measured, and how much of it."""

    seed: int = 1
    clients: int = 60_000
    messages: int = 1_000
    rate_hz: float = 1.0
    """Of all clients together."""
    percents: tuple[float, ...] = (0.02, 0.05, 0.1, 1.0, 5.0, 10.0)
    degrees: tuple[int, ...] = (1, 2, 4)
    """How many others each peer passes a message on to; 1, the text's chain, is always among them.
    """
    link_bytes_per_s: float = 125e6
    """The text's Gigabit LAN."""
    hop_s: float = 0.02
    peer_bytes_per_s: float = 1.25e6
    """What a client can send: 10 Mbit/s."""


QUICK = RadiatorSettings(
    clients=2_000, messages=200, percents=(0.1, 1.0, 10.0), degrees=(1, 2), rate_hz=1.0
)


def chains_part(percent: float) -> str:
    """Return the name of a part of the experiment: chains of a size."""
    return f"Tables 3 and 4, Figure 4: chains of {percent:g} %"


def parts(settings: RadiatorSettings) -> list[str]:
    """Return the parts of the experiment, in their order."""
    return [
        "Messages", "Table 2 and Figure 3", *map(chains_part, settings.percents),
        "The best setting", "Six hosts", "Time thresholds", "Compression", "Cost",
    ]  # fmt: skip


class Prepared(Struct, frozen=True):
    """What all runs of an experiment share."""

    settings: RadiatorSettings
    clients: Clients
    messages: Sequence[ContextMessage]
    dictionary: Dictionary
    plain: Sequence[EncodedMessage]
    volumes: dict[int, list[EncodedMessage]]
    link: LinkModel
    peer: PeerModel

    def run(self, messages: Sequence[EncodedMessage], how: Propagation) -> RunResult:
        """Run one setting."""
        return run_propagation(messages, self.clients, how, self.link, self.peer)

    def run_degrees(
        self, messages: Sequence[EncodedMessage], how: Propagation, degrees: Sequence[int]
    ) -> dict[int, RunResult]:
        """Run one setting with several degrees."""
        return run_degrees(messages, self.clients, how, degrees, self.link, self.peer)

    def encoded(self, threshold: Threshold) -> list[EncodedMessage]:
        """Return what a threshold releases, encoded."""
        ready = list(gathered(self.messages, threshold))
        return encoded_messages(ready, lambda each: encode_payload(each, ALL, self.dictionary))


def run(
    settings: RadiatorSettings, progress: Progress = lambda part: None
) -> tuple[ExperimentResult, list[ExperimentFigure]]:
    """Return all rows, and the figures to draw."""
    begun = time.process_time()
    progress("Messages")
    prepared = prepare(settings)
    progress("Table 2 and Figure 3")
    rows, figures, direct = _table_2(prepared)
    chained, figure, runs = _chains(prepared, direct, progress)
    rows += chained
    figures.append(figure)
    progress("The best setting")
    rows += _best(prepared, direct, runs)
    progress("Six hosts")
    rows += _six_hosts(prepared)
    progress("Time thresholds")
    rows += _time_thresholds(prepared, direct)
    progress("Compression")
    rows += _compression(prepared)
    progress("Cost")
    rows += _cost(prepared, time.process_time() - begun)
    described: dict[str, object] = to_builtins(settings)
    described["push_s"] = prepared.link.push_s
    return ExperimentResult(NAME, settings.seed, rows, described), figures


def prepare(settings: RadiatorSettings) -> Prepared:
    """Return clients, messages and the calibrated link."""
    clients = some_clients(settings.clients, settings.seed)
    messages = some_messages(settings.clients, settings.messages, settings.rate_hz, settings.seed)
    dictionary = Dictionary(1, trained_dictionary(settings.clients, settings.seed))
    plain = encoded_messages(list(gathered(messages, volume(1))), lambda _payload: None)
    prepared = Prepared(
        settings, clients, messages, dictionary, plain, {},
        LinkModel(0.0, settings.link_bytes_per_s),
        PeerModel(settings.hop_s, settings.peer_bytes_per_s),
    )  # fmt: skip
    volumes = {each: prepared.encoded(volume(each)) for each in VOLUMES}
    prepared = replace(prepared, volumes=volumes)
    return replace(prepared, link=calibrated(prepared, PAPER_LAG_S))


def volume(count: int) -> Threshold:
    """Return the threshold of so many messages."""
    return Threshold("volume", count, within_s=1e9, at_most=EVERYBODY)


def calibrated(prepared: Prepared, lag_s: float) -> LinkModel:
    """Return the link whose direct single messages lag so long on average."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = replace(prepared.link, push_s=(low + high) / 2)
        tried = replace(prepared, link=middle)
        found = tried.run(prepared.volumes[1], Propagation()).mean_lag_s
        low, high = (low, middle.push_s) if found > lag_s else (middle.push_s, high)
    return replace(prepared.link, push_s=high)


def _table_2(
    prepared: Prepared,
) -> tuple[list[ExperimentRow], list[ExperimentFigure], dict[int, RunResult]]:
    """Return Table 2, Figure 3, and the direct runs by volume; 0: not encoded."""
    direct = {0: prepared.run(prepared.plain, Propagation())}
    direct |= {
        each: prepared.run(messages, Propagation()) for each, messages in prepared.volumes.items()
    }
    rows = []
    for each, result in direct.items():
        case, paper = (f"volume {each}", PAPER_TABLE_2[each]) if each else (
            "volume 1, not encoded", PAPER_TABLE_2["uncompressed"]
        )  # fmt: skip
        rows += [
            ExperimentRow("Table 2", f"{case}: outbound", paper[0], result.mean_rate / 1e3, "kB/s"),
            ExperimentRow(
                "Table 2", f"{case}: on the wire", None, result.wire_bytes / result.ends / 1e3,
                "kB/s",
            ),
            ExperimentRow(
                "Table 2", f"{case}: average lag", paper[1], result.mean_lag_s, "s",
                note="Calibrated on the text's 42 s; every other lag follows." if each == 1 else "",
            ),
        ]  # fmt: skip
    named = {f"volume {each}" if each else "not encoded": found for each, found in direct.items()}
    return rows, [_over_time("radiator-figure-3", "Aggregability settings", named)], direct


def _chains(
    prepared: Prepared, direct: dict[int, RunResult], progress: Progress
) -> tuple[list[ExperimentRow], ExperimentFigure, dict[tuple[int, float, int], RunResult]]:
    """Return Tables 3 and 4, Figure 4, and all runs by volume, chain size and degree."""
    settings = prepared.settings
    degrees = sorted({CHAIN, *settings.degrees})
    runs: dict[tuple[int, float, int], RunResult] = {}
    for percent in settings.percents:
        progress(chains_part(percent))
        for each, messages in prepared.volumes.items():
            of_degrees = prepared.run_degrees(messages, Propagation(percent), degrees)
            runs |= {(each, percent, degree): found for degree, found in of_degrees.items()}
    rows = [
        ExperimentRow("Table 3", "no chain: average lag", PAPER_TABLE_3[0.0],
                      direct[1].mean_lag_s, "s")
    ]  # fmt: skip
    for percent in settings.percents:
        found = runs[1, percent, CHAIN]
        rows.append(
            ExperimentRow("Table 3", f"chains of {percent:g} %: average lag",
                          PAPER_TABLE_3.get(percent), found.mean_lag_s, "s")
        )  # fmt: skip
    rows += [
        ExperimentRow("Table 4", f"chains of 1 %, volume {each}: average lag", PAPER_TABLE_4[each],
                      runs[each, 1.0, CHAIN].mean_lag_s, "s")
        for each in VOLUMES
        if (each, 1.0, CHAIN) in runs
    ]  # fmt: skip
    for percent in settings.percents:
        share = 100 * runs[1, percent, CHAIN].application_bytes / direct[1].application_bytes
        rows.append(
            ExperimentRow("Figure 4", f"chains of {percent:g} %: outbound, of direct",
                          PAPER_SHARES.get(percent), share, "%")
        )  # fmt: skip
    named = {"no chain": direct[1]}
    named |= {f"{percent:g} %": runs[1, percent, CHAIN] for percent in settings.percents}
    return rows, _over_time("radiator-figure-4", "Chain sizes, volume 1", named), runs


def _best(
    prepared: Prepared,
    direct: dict[int, RunResult],
    runs: dict[tuple[int, float, int], RunResult],
) -> list[ExperimentRow]:
    """Return outbound bytes of every setting beside their bound, and the best in time."""
    rows, uncompressed = [], direct[0].application_bytes
    for each, messages in prepared.volumes.items():
        bound = least_bytes(prepared.settings.clients) * len(messages)
        rows.append(
            ExperimentRow("bytes", f"volume {each}, naming every recipient once: fewer than direct",
                          None, uncompressed / bound, "times")
        )  # fmt: skip
        rows.append(
            ExperimentRow("bytes", f"volume {each}, direct: fewer than direct uncompressed", None,
                          uncompressed / direct[each].application_bytes, "times")
        )  # fmt: skip
        for percent in prepared.settings.percents:
            found = runs[each, percent, CHAIN]
            rows.append(
                ExperimentRow("bytes", f"volume {each}, chains of {percent:g} %: fewer than direct",
                              None, uncompressed / found.application_bytes, "times")
            )  # fmt: skip
        in_time = {
            (percent, degree): found
            for (its_volume, percent, degree), found in runs.items()
            if its_volume == each and found.mean_lag_s <= direct[each].mean_lag_s
        }
        if not in_time:
            continue
        (percent, degree), best = min(in_time.items(), key=lambda one: one[1].application_bytes)
        case = f"volume {each}, chains of {percent:g} %, degree {degree}"
        rows += [
            ExperimentRow("best in time", f"{case}: fewer bytes", 20.0 if each == 20 else None,
                          uncompressed / best.application_bytes, "times",
                          note="No more lag than direct with the same volume."),
            ExperimentRow("best in time", f"{case}: fewer bytes on the wire", None,
                          direct[0].wire_bytes / best.wire_bytes, "times"),
            ExperimentRow("best in time", f"{case}: average lag", None, best.mean_lag_s, "s"),
            ExperimentRow("best in time", f"volume {each}, direct: average lag", None,
                          direct[each].mean_lag_s, "s"),
        ]  # fmt: skip
    return rows


def _six_hosts(prepared: Prepared) -> list[ExperimentRow]:
    rows = []
    for six_hosts in (False, True):
        where = "six hosts" if six_hosts else "distinct addresses"
        found = prepared.run(prepared.volumes[1], Propagation(1.0, CHAIN, six_hosts))
        size = found.application_bytes / found.messages / prepared.settings.clients
        rows.append(
            ExperimentRow("addresses", f"chains of 1 %, {where}: bytes a recipient", None, size,
                          "bytes")
        )  # fmt: skip
    return rows


def _time_thresholds(prepared: Prepared, direct: dict[int, RunResult]) -> list[ExperimentRow]:
    """Return the volumes, and the time thresholds that release as many messages at once."""
    rows = []
    for each in VOLUMES[1:]:
        seconds = (each - 1) / prepared.settings.rate_hz
        threshold = Threshold("time", seconds, within_s=1e9, at_most=EVERYBODY)
        messages = prepared.encoded(threshold)
        found = prepared.run(messages, Propagation())
        case = f"time {seconds:g} s beside volume {each}"
        rows += [
            ExperimentRow("time thresholds", f"{case}: outbound", None,
                          100 * found.mean_rate / direct[each].mean_rate, "%"),
            ExperimentRow("time thresholds", f"{case}: average lag", None,
                          100 * found.mean_lag_s / direct[each].mean_lag_s, "%"),
        ]  # fmt: skip
    return rows


def _compression(prepared: Prepared) -> list[ExperimentRow]:
    """Return bytes a message, beside those of the whole stream compressed at once."""
    stream = b"\n".join(message.payload for message in prepared.messages)
    whole = len(zstandard.ZstdCompressor(level=_STREAM_LEVEL).compress(stream))
    count = len(prepared.messages)
    rows = [
        ExperimentRow("compression", "JSON: a message", None, len(stream) / count, "bytes"),
        ExperimentRow("compression", "zstd over the whole stream: a message", None, whole / count,
                      "bytes"),
    ]  # fmt: skip
    for each, messages in prepared.volumes.items():
        size = sum(len(message.payload) for message in messages)
        rows.append(
            ExperimentRow("compression", f"volume {each}: a message", None, size / count, "bytes")
        )
        rows.append(
            ExperimentRow("compression", f"volume {each}: times the whole stream", None,
                          size / whole, "times")
        )  # fmt: skip
    return rows


def _cost(prepared: Prepared, cpu_s: float) -> list[ExperimentRow]:
    """Return the processor time of the server's own work for one message, and memory."""
    begun = time.process_time()
    messages = prepared.encoded(volume(50))
    encoding_s = (time.process_time() - begun) / len(messages)
    begun = time.process_time()
    prepared.run(messages, Propagation(1.0, 2))
    planning_s = (time.process_time() - begun) / len(messages)
    clients = prepared.clients
    columns = (clients.lats, clients.lons, clients.weak)
    size = sum(column.nbytes for column in columns) + 6 * len(clients)
    return [
        ExperimentRow("cost", "gather and encode an aggregate of 50", None, encoding_s * 1e3,
                      "ms CPU"),
        ExperimentRow("cost", "plan and write the chains of one message", None, planning_s * 1e3,
                      "ms CPU"),
        ExperimentRow("cost", "positions and addresses of all recipients", None, size / 1e6, "MB"),
        ExperimentRow("cost", "the whole experiment", None, cpu_s, "s CPU"),
    ]  # fmt: skip


def _over_time(name: str, title: str, runs: dict[str, RunResult]) -> ExperimentFigure:
    every_s = max(10.0, max(found.ends for found in runs.values()) / 100)
    curves = []
    for label, found in runs.items():
        rates = [each / 1e3 for each in found.over_time(every_s)]
        curves.append(Curve(label, [each * every_s for each in range(len(rates))], rates))
    return ExperimentFigure(
        name, f"Outbound network usage: {title}", "s", "kB/s", tuple(curves), y_log=True
    )
