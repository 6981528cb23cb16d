"""What of a broker's settings its engine decides by."""

from nearcast.broker.config.settings import Settings
from nearcast.core.engine.engine import EngineSettings

LIVE_AT_ONCE = 500
"""Retained messages and live events that one input brings to a session; more follow in turns.

No more than half of what its queue takes.
"""


def engine_settings(settings: Settings) -> EngineSettings:
    """Return the settings of the engine of a broker."""
    situation = settings.situation
    return EngineSettings(
        position_ttl_s=situation.position_ttl_s,
        ahead_s=situation.ahead_s,
        recent_s=situation.recent_s,
        context_bytes=settings.limits.context_bytes,
        unrecorded=settings.record.exclude,
        elsewhere=tuple((pattern, where == "spark") for pattern, where in settings.decide.items()),
        routes=not settings.record.deliveries,
        shared_objects=settings.objects.shared,
        live_at_once=min(LIVE_AT_ONCE, max(1, settings.limits.queued // 2)),
        levels=settings.adaptation.levels,
    )
