"""A parole officer is told by one member, also when both leave at once over a bad link."""

import sys

import pytest

from nearcast.core.relationships.silence.pair_member import PairSettings, Transition
from nearcast.core.relationships.silence.pair_message import Crossing, PairMessage
from nearcast.core.relationships.silence.regions.range_ring import RangeRing
from nearcast.simulation.network.virtual_connection import LinkQuality
from nearcast.simulation.network.virtual_network import VirtualNetwork
from nearcast.simulation.sequence_chart import SequenceChart
from nearcast.simulation.silent_node import SilentNode
from nearcast.simulation.virtual_clock import VirtualClock

YARD_M = 0.9144
WITHIN_M = 100.0 * YARD_M
BAD = LinkQuality(
    least_delay_s=0.05, most_delay_s=0.3, loss=0.4, reordering=0.4, reordering_s=1.5,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_the_officer_is_told_when_both_leave_at_once(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = VirtualClock(seed)
    network = VirtualNetwork(clock, BAD)
    chart = SequenceChart(clock, ["alpha", "beta", "officer"])
    sent: list[Crossing] = []
    alarms: list[Transition] = []

    def trace(node: str, peer: str, message: PairMessage) -> None:
        chart.message(node, peer, message)
        if isinstance(message, Crossing):
            sent.append(message)

    def notify(node: str, peer: str, transition: Transition) -> None:
        chart.transition(node, peer, transition)
        if node == "alpha":
            alarms.append(transition)
            what = "ALARM: near" if transition.near else "apart"
            chart.alarm(node, "officer", what)

    settings = PairSettings(WITHIN_M, RangeRing(), retry_s=0.5, retry_most_s=2.0)
    alpha, beta = (
        SilentNode(
            network.datagrams.open(name), clock, {peer: settings}, notify=notify, trace=trace
        )
        for name, peer in (("alpha", "beta"), ("beta", "alpha"))
    )
    alpha.fix((0.0, 0.0, 0.0))
    beta.fix((300.0, 0.0, 0.0))
    clock.run(30.0)
    assert [each.near for each in alarms] == [False]
    set_up = len(sent)

    chart.note("alpha", "both leave their rings at once")
    alpha.fix((120.0, 0.0, 0.0))
    beta.fix((180.0, 0.0, 0.0))
    both = sent[set_up:]
    assert [each.sender for each in both] == ["alpha", "beta"]
    assert both[0].peer_number < both[1].number
    clock.run(60.0)
    assert [each.near for each in alarms] == [False, True]
    assert alpha.members["beta"].near
    assert beta.members["alpha"].near
    assert alpha.members["beta"].regions == beta.members["alpha"].regions
    sys.stdout.write(f"{chart}\n")
    assert "ALARM: near" in capsys.readouterr().out
