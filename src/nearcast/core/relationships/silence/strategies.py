"""The strategies of silence, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from nearcast.core.relationships.silence.exit_hazard import ExitHazard
from nearcast.core.relationships.silence.predictive_strip import PredictiveStrip
from nearcast.core.relationships.silence.range_ring import RangeRing
from nearcast.core.relationships.silence.strategy import SilenceStrategy
from nearcast.core.relationships.silence.strip import Strip

STRATEGIES: Mapping[str, SilenceStrategy] = MappingProxyType(
    {each.name: each for each in (RangeRing(), Strip(), ExitHazard(), PredictiveStrip())}
)
