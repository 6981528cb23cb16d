"""State of the engine: subscriptions, nodes, announcements, live and recent events."""
