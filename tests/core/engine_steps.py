"""An engine that was told something, and to whom an outcome goes."""

from nearcast.core.engine.engine import Engine, Outcome


def got(outcome: Outcome) -> list[tuple[str, str]]:
    return [(delivery.event.id, delivery.node) for delivery in outcome.deliveries]


def engine_with(*inputs: object) -> Engine:
    engine = Engine()
    outcome = engine.step(inputs, 0.0)  # type: ignore[arg-type]
    assert outcome.refusals == []
    return engine
