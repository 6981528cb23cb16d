"""The strategies of silence, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from nearcast.core.relationships.silence.regions.exit_hazard import ExitHazard
from nearcast.core.relationships.silence.regions.predictive_strip import PredictiveStrip
from nearcast.core.relationships.silence.regions.range_ring import RangeRing
from nearcast.core.relationships.silence.regions.strategy import SilenceStrategy
from nearcast.core.relationships.silence.regions.strip import Strip

STRATEGIES: Mapping[str, SilenceStrategy] = MappingProxyType(
    {each.name: each for each in (RangeRing(), Strip(), ExitHazard(), PredictiveStrip())}
)
