"""The index of subscriptions, nodes and live events, so that few are checked."""
