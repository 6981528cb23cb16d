"""What the engine remembers: subscriptions, nodes, announcements, live and recent events."""
