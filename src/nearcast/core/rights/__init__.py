"""Rights: who may see whose position, identity and attributes, by rules that an operator sets."""

from nearcast.core.model.sight_rule import ANYONE, SEE_NAMES, SightRule, Who, mask_of
from nearcast.core.rights.rights import Rights

__all__ = ["ANYONE", "SEE_NAMES", "Rights", "SightRule", "Who", "mask_of"]
