"""All attacks, by name."""

from nearcast.benchmarks.attacks.catalogue.areas import (
    LargePlace,
    MovedAreas,
    MovedTargets,
    MovingPolygons,
)
from nearcast.benchmarks.attacks.catalogue.attack import Attack
from nearcast.benchmarks.attacks.catalogue.filters import (
    FewCounts,
    FewPatterns,
    ManyCounts,
    ManyPatterns,
)
from nearcast.benchmarks.attacks.catalogue.floods import (
    AcknowledgedFlood,
    ContextPatches,
    FewPings,
    Flood,
    ManyPings,
    RetainedFlood,
    UserProperties,
)
from nearcast.benchmarks.attacks.catalogue.requests import Explanations, IdleSockets
from nearcast.benchmarks.attacks.catalogue.scripts import EndlessScripts, HostileScripts
from nearcast.benchmarks.attacks.catalogue.sessions import (
    ConnectStorm,
    HalfPackets,
    MassDisconnect,
    NeverReads,
    WillStorm,
)
from nearcast.benchmarks.attacks.catalogue.subscriptions import (
    ManySubscriptions,
    RepeatedSubscribe,
    RetainedReplay,
)

ATTACKS: dict[str, type[Attack]] = {
    attack.name: attack
    for attack in (
        FewPatterns,
        ManyPatterns,
        FewCounts,
        ManyCounts,
        MovedAreas,
        MovedTargets,
        RetainedReplay,
        FewPings,
        ManyPings,
        MovingPolygons,
        LargePlace,
        Explanations,
        Flood,
        AcknowledgedFlood,
        ManySubscriptions,
        RepeatedSubscribe,
        ConnectStorm,
        MassDisconnect,
        NeverReads,
        UserProperties,
        HalfPackets,
        ContextPatches,
        RetainedFlood,
        WillStorm,
        IdleSockets,
        EndlessScripts,
        HostileScripts,
    )
}
