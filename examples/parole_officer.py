"""Two people must not meet, and an officer who asked at one of them is told when they do.

Both keep silent inside their range rings. Here they leave them at once, over a link that loses two
of five messages and lets others overtake: each tells the other, the two messages cross, and both
keep the regions of the same one. What was lost is said again. All of it runs in virtual time; the
chart has each message when it was sent. The officer gets the alarm.

Prints:

              alpha                         beta                          officer
       0.000  -------1 (of your 0)-------->
       0.000  <-------1 (of your 0)--------
       0.071  <----2 (of your 1) apart-----
       0.071                                * knows: apart
       0.500  -------2 (of your 0)-------->
       0.571  <----2 (of your 1) apart-----
       0.656  <----3 (of your 2) apart-----
       0.821  -----------ack 2------------>
       0.821  * knows: apart
       0.821  --------------------------apart--------------------------->
       1.156  <----3 (of your 2) apart-----
       1.327  -----------ack 3------------>
       2.156  <----3 (of your 2) apart-----
       2.344  -----------ack 3------------>
       2.433  -----------ack 3------------>
      30.000  * both leave their rings at once
      30.000  ----3 (of your 3) apart----->
      30.000  <----4 (of your 2) apart-----
      30.164  -----ack 4, mine counts----->
      30.500  ----3 (of your 3) apart----->
      31.443  <-----5 (of your 3) near-----
      31.443                                * knows: near
      31.500  ----3 (of your 3) apart----->
      31.524  -----------ack 5------------>
      31.524  * knows: near
      31.524  -----------------------ALARM: near------------------------>
      31.943  <-----5 (of your 3) near-----
      32.943  <-----5 (of your 3) near-----
"""

from nearcast.core.relationships.silence.pair_member import PairSettings, Transition
from nearcast.core.relationships.silence.pair_message import PairMessage
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES
from nearcast.simulation.network.virtual_connection import LinkQuality
from nearcast.simulation.network.virtual_network import VirtualNetwork
from nearcast.simulation.sequence_chart import SequenceChart
from nearcast.simulation.silent_node import SilentNode
from nearcast.simulation.virtual_clock import VirtualClock

WITHIN_M = 91.44
"""A hundred yards."""
BAD = LinkQuality(least_delay_s=0.05, most_delay_s=0.3, loss=0.4, reordering=0.4, reordering_s=1.5)

clock = VirtualClock(seed=2)
network = VirtualNetwork(clock, BAD)
chart = SequenceChart(clock, ["alpha", "beta", "officer"])


def notify(node: str, peer: str, transition: Transition) -> None:
    """Tell the officer, who asked at alpha."""
    chart.transition(node, peer, transition)
    if node == "alpha":
        chart.alarm(node, "officer", "ALARM: near" if transition.near else "apart")


def trace(node: str, peer: str, message: PairMessage) -> None:
    """Draw a message."""
    chart.message(node, peer, message)


settings = PairSettings(WITHIN_M, STRATEGIES["ring"], retry_s=0.5, retry_most_s=2.0)
alpha, beta = (
    SilentNode(network.datagrams.open(name), clock, {peer: settings}, notify=notify, trace=trace)
    for name, peer in (("alpha", "beta"), ("beta", "alpha"))
)
alpha.fix((0.0, 0.0, 0.0))
beta.fix((300.0, 0.0, 0.0))
clock.run(30.0)
chart.note("alpha", "both leave their rings at once")
alpha.fix((120.0, 0.0, 0.0))
beta.fix((180.0, 0.0, 0.0))
clock.run(60.0)
print(chart)
