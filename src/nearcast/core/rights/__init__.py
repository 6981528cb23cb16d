"""Rights: visibility of positions, identities and attributes, by rules that an operator sets."""

from nearcast.core.model.sight_rule import ANYONE as ANYONE
from nearcast.core.model.sight_rule import SEE_NAMES as SEE_NAMES
from nearcast.core.model.sight_rule import NodeCondition as NodeCondition
from nearcast.core.model.sight_rule import SightRule as SightRule
from nearcast.core.model.sight_rule import mask_of as mask_of
from nearcast.core.rights.rights import Rights as Rights
