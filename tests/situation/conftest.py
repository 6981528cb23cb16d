"""A broker for each module that keeps nothing; `KEEPS = True` gives it a data directory."""

from tests.conformance.conftest import broker, shared_broker

__all__ = ["broker", "shared_broker"]
