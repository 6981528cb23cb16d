"""Adapting: how urgent a matched event is for a subscriber, from relevance and context (seed C)."""
