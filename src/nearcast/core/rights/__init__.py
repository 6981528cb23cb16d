"""Rights: who may see whose position, identity and attributes, by rules that an operator sets."""

from nearcast.core.model.sight_rule import ANYONE, SEE_NAMES, NodeCondition, SightRule, mask_of
from nearcast.core.rights.rights import Rights

__all__ = ["ANYONE", "SEE_NAMES", "NodeCondition", "Rights", "SightRule", "mask_of"]
