"""Errors of adaptation."""

from nearcast.core.model.errors import ModelError


class AdaptationError(ModelError):
    """A relevance vector, a matrix, a class of awareness or another policy is not valid."""


class PolicySyntaxError(AdaptationError):
    """A policy is neither a JSON object nor XML."""
